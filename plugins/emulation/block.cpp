#include "block.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>

namespace emulation {

Block* current_block = nullptr;

namespace {

std::string place(const Site& site) {
    const char* slash = std::strrchr(site.file, '/');
    return std::string(site.operation) + " at " + (slash ? slash + 1 : site.file) + ":" + std::to_string(site.line);
}

bool same_text(const char* a, const char* b) { return a == b || !std::strcmp(a, b); }

bool same(const Site& a, const Site& b) {
    return a.line == b.line && same_text(a.operation, b.operation) && same_text(a.file, b.file);
}

unsigned lowest(unsigned mask) { return static_cast<unsigned>(__builtin_ctz(mask)); }

std::string describe(const Thread& thread) {
    const std::string name = "thread " + std::to_string(thread.linear);
    if (thread.state == Thread::State::finished) return name + " has left the kernel";
    return name + " waits in " + place(thread.site);
}

std::string hexadecimal(unsigned mask) {
    char text[11];
    std::snprintf(text, sizeof text, "0x%08x", mask);
    return text;
}

}  // namespace

bool Block::run(const std::function<void()>& kernel, Index size, std::size_t dynamic_bytes, std::uint64_t seed,
                bool poison) {
    size_ = size.x * size.y * size.z;
    finished_ = waiting_ = 0;
    fault_.clear();
    kernel_ = &kernel;
    random_.seed(seed);
    shuffled_ = seed != 0;
    stacks_.reserve(size_);
    shared_.start_block(dynamic_bytes, poison);
    threads_.resize(size_);
    warps_.assign((size_ + kWarp - 1) / kWarp, Warp{});
    for (unsigned linear = 0; linear < size_; ++linear) {
        Thread& thread = threads_[linear];
        thread.linear = linear;
        thread.lane = linear % kWarp;
        warps_[linear / kWarp].lanes |= 1u << thread.lane;
        thread.index = {linear % size.x, linear / size.x % size.y, linear / (size.x * size.y)};
        thread.state = Thread::State::ready;
        // Stacks lie a whole number of pages apart. Starting them at different cache lines keeps their tops from
        // competing for the same set of the cache.
        thread.fiber.start(stacks_.stack(linear), StackPool::stack_bytes() - linear % 64 * 64, enter);
    }

    order_.resize(size_);
    std::iota(order_.begin(), order_.end(), 0u);
    start_turn();
    current_block = this;
    wait_for_threads();
    current_block = nullptr;
    if (fault_.empty() && finished_ < size_) report_deadlock();
    if (fault_.empty() && !shared_.gaps_intact()) fault_ = "a thread wrote beside an object in shared memory";
    return fault_.empty();
}

void Block::start_turn() {
    if (shuffled_) std::shuffle(order_.begin(), order_.end(), random_);
    cursor_ = 0;
    progressed_ = false;
}

// The next thread that can run. Every ready one runs once before a turn ends; null when none has run in a whole turn.
Thread* Block::next_ready() {
    for (;;) {
        while (cursor_ < size_) {
            Thread& thread = threads_[order_[cursor_++]];
            if (thread.state != Thread::State::ready) continue;
            progressed_ = true;
            return &thread;
        }
        if (!progressed_) return nullptr;
        start_turn();
    }
}

void Block::wait_for_threads() {
    running_ = next_ready();
    Fiber::switch_to(caller_, running_->fiber);
}

// Runs other threads until this one is ready and its turn has come. Threads hand over to one another; only the last one
// to finish, a fault or a deadlock brings the caller back.
void Block::wait() {
    Thread* self = running_;
    Thread* next = fault_.empty() ? next_ready() : nullptr;
    if (next == self) return;
    running_ = next;
    Fiber::switch_to(self->fiber, next ? next->fiber : caller_);
}

void Block::enter() {
    entered_fiber();
    Block& block = *current_block;
    (*block.kernel_)();
    Thread& thread = block.thread();
    thread.state = Thread::State::finished;
    ++block.finished_;
    block.warps_[thread.linear / kWarp].finished |= 1u << thread.lane;
    if (block.waiting_) block.fail("divergent barrier: " + describe(thread) + ", " + describe(*block.first_waiting_));
    block.wait();
}

void Block::fail(const std::string& message) {
    fault_ = message;
    wait();
    __builtin_unreachable();  // a block with a fault is never resumed
}

void Block::pause() {
    if (shuffled_ && random_() % 4 == 0) wait();
}

void* Block::shared_object(const void* site, std::size_t bytes) {
    void* object = shared_.object(site, bytes);
    if (!object)
        fail("the kernel declares more than " + std::to_string(SharedMemory::kStaticLimit / 1024) +
             " KiB of shared memory");
    return object;
}

Votes Block::barrier(Site site, bool predicate) {
    Thread& thread = *running_;
    thread.site = site;
    thread.offer.predicate = predicate;
    thread.state = Thread::State::at_barrier;
    if (finished_) fail("divergent barrier: " + describe(thread) + ", " + describe(any_finished()));
    if (waiting_ && !same(first_waiting_->site, site))
        fail("divergent barrier: " + describe(thread) + ", " + describe(*first_waiting_));
    if (!waiting_) first_waiting_ = &thread;
    if (++waiting_ == size_) release_barrier();
    else wait();
    return votes_;
}

void Block::release_barrier() {
    int count = 0;
    for (Thread& thread : threads_) {
        count += thread.offer.predicate;
        thread.state = Thread::State::ready;
    }
    votes_ = {count, count > 0, count == static_cast<int>(size_)};
    waiting_ = 0;
}

Exchange Block::exchange(Site site, unsigned mask, Offer offer) {
    Thread& thread = *running_;
    thread.site = site;
    thread.mask = mask;
    thread.offer = offer;
    thread.state = Thread::State::at_warp;
    if (!(mask >> thread.lane & 1)) fail(describe(thread) + ": its mask " + hexadecimal(mask) + " leaves itself out");
    if (!(mask >> offer.source & 1))
        fail(describe(thread) + ": it reads lane " + std::to_string(offer.source) + ", which its mask " +
             hexadecimal(mask) + " leaves out");
    if (warp_complete(thread)) release_warp(thread);
    else wait();
    return thread.received;
}

// Whether every lane that `last` names waits with it. Lanes that wait together agree already, so `last` is compared
// with one of them only.
bool Block::warp_complete(const Thread& last) {
    Warp& warp = warps_[last.linear / kWarp];
    const unsigned first = last.linear - last.lane;
    if (last.mask & ~warp.lanes)
        fail(describe(last) + ": its mask " + hexadecimal(last.mask) + " names lanes that the block does not have");
    if (const unsigned gone = last.mask & warp.finished)
        fail("mismatched warp operation: " + describe(last) + ", " + describe(threads_[first + lowest(gone)]));
    if (const unsigned waiting = last.mask & warp.waiting) {
        const Thread& other = threads_[first + lowest(waiting)];
        if (!same(other.site, last.site))
            fail("mismatched warp operation: " + describe(last) + ", " + describe(other));
        if (other.mask != last.mask)
            fail("mismatched warp masks: " + describe(last) + " with " + hexadecimal(last.mask) + ", " +
                 describe(other) + " with " + hexadecimal(other.mask));
    }
    warp.waiting |= 1u << last.lane;
    return (warp.waiting & last.mask) == last.mask;
}

void Block::release_warp(const Thread& last) {
    Thread* lanes = &threads_[last.linear - last.lane];
    unsigned ballot = 0;
    for (unsigned left = last.mask; left; left &= left - 1)
        if (lanes[lowest(left)].offer.predicate) ballot |= 1u << lowest(left);
    for (unsigned left = last.mask; left; left &= left - 1) {
        Thread& thread = lanes[lowest(left)];
        thread.received = {lanes[thread.offer.source].offer.value, ballot};
        thread.state = Thread::State::ready;
    }
    warps_[last.linear / kWarp].waiting &= ~last.mask;
}

void Block::report_deadlock() {
    fault_ = "deadlock:";
    const Thread* last = nullptr;
    for (const Thread& thread : threads_) {  // one line per place, not per thread
        if (last && last->state == thread.state && same(last->site, thread.site)) continue;
        fault_ += (last ? "; " : " ") + describe(thread);
        last = &thread;
    }
}

const Thread& Block::any_finished() const {
    return *std::find_if(threads_.begin(), threads_.end(),
                         [](const Thread& each) { return each.state == Thread::State::finished; });
}

}  // namespace emulation
