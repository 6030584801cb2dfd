// The functions of plugins/core by themselves, one thread per number: what tests compare between implementations.
#pragma once

#include "../core/philox.h"
#include "cpspec/kernels.h"
#include "launch.h"

namespace cpspec {

__device__ __forceinline__ int64_t thread_number() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

__global__ void __launch_bounds__(kMaxBlockThreads)
philox_each(const uint32_t* counters, const uint32_t* keys, int64_t n, uint32_t* out) {
    const int64_t i = thread_number();
    if (i >= n) return;
    const uint32_t* counter = counters + 4 * i;
    const Words4 start{counter[0], counter[1], counter[2], counter[3]};
    const Words4 words = philox4x32(start, keys[2 * i], keys[2 * i + 1]);
    out[4 * i] = words.w0;
    out[4 * i + 1] = words.w1;
    out[4 * i + 2] = words.w2;
    out[4 * i + 3] = words.w3;
}

__global__ void __launch_bounds__(kMaxBlockThreads)
token_word_each(cpspec_noise_rows noise, const int64_t* tokens, int64_t n, uint32_t* words) {
    const int64_t i = thread_number();
    if (i < n) words[i] = token_word(Noise{noise.seeds[i], noise.streams[i], noise.frames[i]}, uint32_t(tokens[i]));
}

__global__ void __launch_bounds__(kMaxBlockThreads)
noise_each(const uint32_t* words, int64_t n, float* uniforms, float* gumbels) {
    const int64_t i = thread_number();
    if (i >= n) return;
    uniforms[i] = uniform_of(words[i]);
    gumbels[i] = gumbel_of(words[i]);
}

__global__ void __launch_bounds__(kMaxBlockThreads)
evaluate_each(cpspec_function function, const float* x, int64_t n, float* y) {
    const int64_t i = thread_number();
    if (i >= n) return;
    y[i] = function == CPSPEC_EXP ? exp_(x[i]) : function == CPSPEC_LOG ? log_(x[i]) : log1p_(x[i]);
}

}  // namespace cpspec
