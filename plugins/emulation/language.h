// The part of CUDA C++ that the kernels use, in terms of a block on the CPU. Included before a kernel's source, it
// lets g++ compile what nvcc compiles.
//
// Rules are taken strictly, more so than by some devices: a barrier belongs to one place in the source that every
// thread of the block reaches, and a lane may not leave the kernel while another names it in a mask. Two things have
// a spelling of their own, for both compilers, in plugins/cuda/launch.h: shared memory and launches.
#pragma once

#include <cstring>
#include <type_traits>

#include "launch.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

#define threadIdx (emulation::current_block->thread().index)
#define blockIdx (emulation::current_grid.block_index)
#define blockDim (emulation::current_grid.block_size)
#define gridDim (emulation::current_grid.grid_size)

using dim3 = emulation::Dim3;
using cudaStream_t = void*;

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};

// Every synchronising function learns from where it is called.
#define CPSPEC_EMULATION_CALLER const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(CPSPEC_EMULATION_CALLER) {
    emulation::current_block->barrier({"__syncthreads", file, line}, false);
}
inline int __syncthreads_count(int predicate, CPSPEC_EMULATION_CALLER) {
    return emulation::current_block->barrier({"__syncthreads_count", file, line}, predicate).count;
}
inline int __syncthreads_or(int predicate, CPSPEC_EMULATION_CALLER) {
    return emulation::current_block->barrier({"__syncthreads_or", file, line}, predicate).any;
}
inline int __syncthreads_and(int predicate, CPSPEC_EMULATION_CALLER) {
    return emulation::current_block->barrier({"__syncthreads_and", file, line}, predicate).all;
}

namespace emulation {

inline Exchange vote(const char* operation, unsigned mask, bool predicate, const char* file, int line) {
    Offer offer;
    offer.source = current_block->thread().lane;
    offer.predicate = predicate;
    return current_block->exchange({operation, file, line}, mask, offer);
}

template <class Value>
Value shuffle(const char* operation, unsigned mask, Value value, unsigned source, const char* file, int line) {
    static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) <= sizeof(std::uint64_t));
    Offer offer;
    std::memcpy(&offer.value, &value, sizeof value);
    offer.source = source;
    const Exchange received = current_block->exchange({operation, file, line}, mask, offer);
    std::memcpy(&value, &received.value, sizeof value);
    return value;
}

}  // namespace emulation

inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, CPSPEC_EMULATION_CALLER) {
    emulation::vote("__syncwarp", mask, false, file, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, CPSPEC_EMULATION_CALLER) {
    return emulation::vote("__ballot_sync", mask, predicate, file, line).ballot;
}
inline int __any_sync(unsigned mask, int predicate, CPSPEC_EMULATION_CALLER) {
    return emulation::vote("__any_sync", mask, predicate, file, line).ballot != 0;
}
inline int __all_sync(unsigned mask, int predicate, CPSPEC_EMULATION_CALLER) {
    return emulation::vote("__all_sync", mask, predicate, file, line).ballot == mask;
}
template <class Value>
Value __shfl_sync(unsigned mask, Value value, int source, CPSPEC_EMULATION_CALLER) {
    return emulation::shuffle("__shfl_sync", mask, value, static_cast<unsigned>(source) % 32, file, line);
}
template <class Value>
Value __shfl_xor_sync(unsigned mask, Value value, int flip, CPSPEC_EMULATION_CALLER) {
    const unsigned lane = emulation::current_block->thread().lane;
    return emulation::shuffle("__shfl_xor_sync", mask, value, (lane ^ static_cast<unsigned>(flip)) % 32, file, line);
}
template <class Value>
Value __shfl_up_sync(unsigned mask, Value value, unsigned distance, CPSPEC_EMULATION_CALLER) {
    const unsigned lane = emulation::current_block->thread().lane;
    return emulation::shuffle("__shfl_up_sync", mask, value, lane < distance ? lane : lane - distance, file, line);
}
template <class Value>
Value __shfl_down_sync(unsigned mask, Value value, unsigned distance, CPSPEC_EMULATION_CALLER) {
    const unsigned lane = emulation::current_block->thread().lane;
    return emulation::shuffle("__shfl_down_sync", mask, value, lane + distance > 31 ? lane : lane + distance, file,
                              line);
}

// Atomics. Threads of a block take turns, so plain accesses are atomic; a turn may end before one, so that a kernel
// which relies on their order is caught. Floating-point sums are left out on purpose: their result depends on order.
template <class Value>
Value atomicAdd(Value* address, Value value) {
    static_assert(std::is_integral_v<Value>, "an atomic floating-point sum depends on the order of threads");
    emulation::current_block->pause();
    const Value old = *address;
    *address = old + value;
    return old;
}
template <class Value>
Value atomicMax(Value* address, Value value) {
    emulation::current_block->pause();
    const Value old = *address;
    if (old < value) *address = value;
    return old;
}
template <class Value>
Value atomicMin(Value* address, Value value) {
    emulation::current_block->pause();
    const Value old = *address;
    if (value < old) *address = value;
    return old;
}
template <class Value>
Value atomicOr(Value* address, Value value) {
    emulation::current_block->pause();
    const Value old = *address;
    *address = old | value;
    return old;
}
template <class Value>
Value atomicCAS(Value* address, Value expected, Value value) {
    emulation::current_block->pause();
    const Value old = *address;
    if (old == expected) *address = value;
    return old;
}

// Blocks run one after another over one memory: nothing to order, and no cache to pass.
inline void __threadfence() {}
template <class Value>
Value __ldcg(const Value* address) {
    return *address;
}

inline int __popc(unsigned word) { return __builtin_popcount(word); }
inline int __clz(int word) { return word ? __builtin_clz(static_cast<unsigned>(word)) : 32; }
inline int __ffs(int word) { return __builtin_ffs(word); }
