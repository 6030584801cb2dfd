// The switch saves what a called function must preserve (x86-64 System V, AArch64 AAPCS64) and swaps stacks.
#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef CPSPEC_EMULATION_UCONTEXT
extern "C" void cpspec_emulation_switch(void** save, void* load) __attribute__((visibility("hidden")));

#if defined(__x86_64__)
asm(R"(
    .text
    .hidden cpspec_emulation_switch
    .globl cpspec_emulation_switch
    .type cpspec_emulation_switch, @function
cpspec_emulation_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size cpspec_emulation_switch, . - cpspec_emulation_switch
)");
#else
asm(R"(
    .text
    .hidden cpspec_emulation_switch
    .globl cpspec_emulation_switch
    .type cpspec_emulation_switch, %function
cpspec_emulation_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size cpspec_emulation_switch, . - cpspec_emulation_switch
)");
#endif
#endif

namespace emulation {

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kStackBytes = 256 * 1024;  // frames are wider with red zones
Fiber* suspended = nullptr;                      // who switched last: its stack's bounds are learnt on arrival
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif

std::size_t page_bytes() {
    static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

}  // namespace

void Fiber::start(char* stack, std::size_t bytes, Entry entry) {
    stack_bottom_ = stack;
    stack_bytes_ = bytes;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(stack, bytes);  // the thread that used it before never unwound
#endif
#ifdef CPSPEC_EMULATION_UCONTEXT
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
#else
    void** top = reinterpret_cast<void**>((reinterpret_cast<std::uintptr_t>(stack) + bytes) & ~std::uintptr_t{15});
#if defined(__x86_64__)
    *--top = nullptr;  // where a return address would stand: keeps the entry's stack aligned as after a call
    *--top = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
#else
    constexpr int kSavedWords = 20, kLinkRegister = 11;
    top -= kSavedWords;
    for (int word = 0; word < kSavedWords; ++word) top[word] = nullptr;
    top[kLinkRegister] = reinterpret_cast<void*>(entry);
#endif
    stack_pointer_ = top;
#endif
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
    void* fake_stack = nullptr;
    suspended = &from;
    __sanitizer_start_switch_fiber(&fake_stack, to.stack_bottom_, to.stack_bytes_);
#endif
#ifdef CPSPEC_EMULATION_UCONTEXT
    swapcontext(&from.context_, &to.context_);
#else
    cpspec_emulation_switch(&from.stack_pointer_, to.stack_pointer_);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, &suspended->stack_bottom_, &suspended->stack_bytes_);
#endif
}

void entered_fiber() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &suspended->stack_bottom_, &suspended->stack_bytes_);
#endif
}

StackPool::~StackPool() { release(); }

void StackPool::release() {
    if (memory_) munmap(memory_, count_ * (kStackBytes + page_bytes()));
    memory_ = nullptr;
    count_ = 0;
}

void StackPool::reserve(unsigned count) {
    if (count <= count_) return;
    release();
    const std::size_t stride = kStackBytes + page_bytes();
    void* memory = mmap(nullptr, count * stride, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        std::perror("emulation: cannot map the stacks of a block");
        std::abort();
    }
    memory_ = static_cast<char*>(memory);
    count_ = count;
    for (unsigned index = 0; index < count; ++index) mprotect(memory_ + index * stride, page_bytes(), PROT_NONE);
}

char* StackPool::stack(unsigned index) const {
    return memory_ + index * (kStackBytes + page_bytes()) + page_bytes();
}

std::size_t StackPool::stack_bytes() { return kStackBytes; }

}  // namespace emulation
