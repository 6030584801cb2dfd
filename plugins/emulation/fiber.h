// One CPU thread of execution per CUDA thread: a stack of its own and a switch that takes a few nanoseconds.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#define CPSPEC_EMULATION_UCONTEXT  // portable, but every switch is a system call
#endif

#ifdef CPSPEC_EMULATION_UCONTEXT
#include <ucontext.h>
#endif

namespace emulation {

// A suspended flow of control. A default-made Fiber stands for the caller's own stack: it can be switched away
// from and back to, and is never started.
class Fiber {
public:
    using Entry = void (*)();

    // Prepares `entry` to run on the given stack at the next switch_to. It must never return.
    void start(char* stack, std::size_t bytes, Entry entry);

    // Suspends `from`, the fiber that is running now, and resumes `to`.
    static void switch_to(Fiber& from, Fiber& to);

private:
    friend void entered_fiber();
#ifdef CPSPEC_EMULATION_UCONTEXT
    ucontext_t context_;
#else
    void* stack_pointer_ = nullptr;
#endif
    // What AddressSanitizer must know of each stack; unused without it.
    const void* stack_bottom_ = nullptr;
    std::size_t stack_bytes_ = 0;
};

// Must be the first call of a fiber's entry.
void entered_fiber();

// Equal stacks in one mapping. Below each lies a page that may not be touched, so an overflow stops at once.
class StackPool {
public:
    ~StackPool();
    void reserve(unsigned count);
    char* stack(unsigned index) const;
    static std::size_t stack_bytes();

private:
    void release();
    char* memory_ = nullptr;
    unsigned count_ = 0;
};

}  // namespace emulation
