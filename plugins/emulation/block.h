// One thread block on one CPU thread: every CUDA thread is a fiber, every synchronising operation a place to wait.
//
// A fiber runs until it waits. Ready fibers take turns in an order shuffled by a seed, so that a kernel whose result
// needs an order it never asked for gives another result under another seed.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "fiber.h"
#include "shared_memory.h"

namespace emulation {

constexpr unsigned kWarp = 32;
constexpr unsigned kMaxThreads = 1024;

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

// Where in the kernel's source a thread waits, and for what.
struct Site {
    const char* operation;
    const char* file;
    int line;
};

struct Votes {
    int count;
    bool any, all;
};

// What a lane brings to a warp operation.
struct Offer {
    std::uint64_t value = 0;
    unsigned source = 0;  // the lane whose value it wants
    bool predicate = false;
};

// What it takes away.
struct Exchange {
    std::uint64_t value;
    unsigned ballot;
};

struct Thread {
    enum class State { ready, at_barrier, at_warp, finished };

    Fiber fiber;
    Index index;
    unsigned linear = 0, lane = 0;
    State state = State::ready;
    Site site{};
    unsigned mask = 0;
    Offer offer;
    Exchange received{};
};

// Sets of lanes, a bit each.
struct Warp {
    unsigned lanes = 0, waiting = 0, finished = 0;
};

class Block {
public:
    // Runs `kernel` once per thread. False when the block broke a rule of CUDA; `fault()` tells which.
    bool run(const std::function<void()>& kernel, Index size, std::size_t dynamic_bytes, std::uint64_t seed,
             bool poison);
    const std::string& fault() const { return fault_; }

    // For the thread that runs now.
    Thread& thread() { return *running_; }
    Votes barrier(Site site, bool predicate);
    Exchange exchange(Site site, unsigned mask, Offer offer);
    void pause();  // lets another thread run first, sometimes
    void* shared_object(const void* site, std::size_t bytes);
    SharedMemory& shared() { return shared_; }
    [[noreturn]] void fail(const std::string& message);

private:
    static void enter();
    void start_turn();
    Thread* next_ready();
    void wait_for_threads();
    void wait();
    void release_barrier();
    bool warp_complete(const Thread& last);
    void release_warp(const Thread& last);
    void report_deadlock();
    const Thread& any_finished() const;

    StackPool stacks_;
    SharedMemory shared_;
    std::vector<Thread> threads_;
    std::vector<Warp> warps_;
    unsigned size_ = 0, finished_ = 0, waiting_ = 0;
    const Thread* first_waiting_ = nullptr;
    Votes votes_{};
    Fiber caller_;
    std::vector<unsigned> order_;
    unsigned cursor_ = 0;
    bool progressed_ = false;
    Thread* running_ = nullptr;
    const std::function<void()>* kernel_ = nullptr;
    std::mt19937_64 random_;
    bool shuffled_ = false;
    std::string fault_;
};

// The block that runs now. Launches are serialised, so there is one.
extern Block* current_block;

}  // namespace emulation
