// Reductions, scans and votes of a block. All work in integers, so no result depends on the order of threads.
//
// Every function here is called by all threads of a block, and gives all of them its result. A barrier ends each, so
// that the scratch may be used again at once.
#pragma once

#include "../core/platform.h"
#include "launch.h"

namespace cpspec {

constexpr unsigned kWarpThreads = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr unsigned kMaxWarps = kMaxBlockThreads / kWarpThreads;

struct BlockScratch {
    uint64_t warp[kMaxWarps];
};

__device__ __forceinline__ unsigned lane_index() { return threadIdx.x % kWarpThreads; }
__device__ __forceinline__ unsigned warp_index() { return threadIdx.x / kWarpThreads; }
__device__ __forceinline__ unsigned warp_count() { return blockDim.x / kWarpThreads; }

struct Sum {
    __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};

struct Largest {
    __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a > b ? a : b; }
};

// The larger of each 32-bit half.
struct LargestHalves {
    __device__ uint64_t operator()(uint64_t a, uint64_t b) const {
        const uint32_t high = a >> 32 > b >> 32 ? uint32_t(a >> 32) : uint32_t(b >> 32);
        const uint32_t low = uint32_t(a) > uint32_t(b) ? uint32_t(a) : uint32_t(b);
        return uint64_t(high) << 32 | low;
    }
};

template <class Operation>
__device__ uint64_t block_reduce(uint64_t value, Operation operation, BlockScratch& scratch) {
    for (int flip = kWarpThreads / 2; flip > 0; flip /= 2)
        value = operation(value, __shfl_xor_sync(kAllLanes, value, flip));
    if (lane_index() == 0) scratch.warp[warp_index()] = value;
    __syncthreads();
    value = scratch.warp[0];
    for (unsigned warp = 1; warp < warp_count(); ++warp) value = operation(value, scratch.warp[warp]);
    __syncthreads();
    return value;
}

// A thread's own value and those of all threads before it; `total` is the sum over the block.
struct Prefix {
    uint64_t inclusive, total;
};

__device__ __forceinline__ Prefix block_prefix(uint64_t value, BlockScratch& scratch) {
    for (unsigned distance = 1; distance < kWarpThreads; distance *= 2) {
        const uint64_t before = __shfl_up_sync(kAllLanes, value, distance);
        if (lane_index() >= distance) value += before;
    }
    if (lane_index() == kWarpThreads - 1) scratch.warp[warp_index()] = value;
    __syncthreads();
    Prefix prefix{value, 0};
    for (unsigned warp = 0; warp < warp_count(); ++warp) {
        if (warp < warp_index()) prefix.inclusive += scratch.warp[warp];
        prefix.total += scratch.warp[warp];
    }
    __syncthreads();
    return prefix;
}

// Whether this block is the last of `expected` to arrive at a counter that starts at 0 and is left at 0. What the
// others wrote before they arrived may be read after this, past the cache that blocks do not share.
__device__ __forceinline__ bool last_to_arrive(uint32_t* counter, uint32_t expected, BlockScratch& scratch) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        scratch.warp[0] = atomicAdd(counter, 1u) == expected - 1;
        if (scratch.warp[0]) *counter = 0;
        __threadfence();
    }
    __syncthreads();
    const bool last = scratch.warp[0] != 0;
    __syncthreads();
    return last;
}

}  // namespace cpspec
