// Enqueues a kernel, on a device or in the emulation, and counts it.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>

#include "../cpu/status.h"
#include "cpspec/kernels.h"
#include "platform.cuh"

namespace cpspec {

// Every kernel is written for any multiple of 32 up to this.
constexpr unsigned kMaxBlockThreads = 256;
constexpr unsigned kMaxGridBlocks = 0x7fffffff;

unsigned block_threads();

// Shared memory for one row of the vocabulary.
inline size_t row_bytes(int64_t vocabulary) { return size_t(vocabulary) * sizeof(uint32_t); }

void count_launch();

struct Launch {
    const char* kernel;  // its name in messages
    int64_t blocks;
    size_t dynamic_bytes = 0;
    cpspec_stream stream = nullptr;
};

template <class... Parameters, class... Arguments>
cpspec_status enqueue(const Launch& launch, void (*kernel)(Parameters...), Arguments&&... arguments) {
    if (launch.blocks == 0) return CPSPEC_OK;
    if (launch.blocks > kMaxGridBlocks)
        return fail(CPSPEC_UNSUPPORTED, "%s: the sizes need %lld blocks, more than a grid holds", launch.kernel,
                      static_cast<long long>(launch.blocks));
    count_launch();
    const dim3 grid(static_cast<unsigned>(launch.blocks)), block(block_threads());
#ifdef __CUDACC__
    kernel<<<grid, block, launch.dynamic_bytes, static_cast<cudaStream_t>(launch.stream)>>>(
        std::forward<Arguments>(arguments)...);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess)
        return fail(CPSPEC_DEVICE_ERROR, "%s: %s", launch.kernel, cudaGetErrorString(error));
#else
    if (!emulation::launch(launch.kernel, kernel, grid, block, launch.dynamic_bytes,
                           std::forward<Arguments>(arguments)...))
        return fail(CPSPEC_DEVICE_ERROR, "%s", emulation::last_fault().c_str());
#endif
    return CPSPEC_OK;
}

// Zeros, in the stream's order.
inline cpspec_status clear(const char* operation, void* memory, size_t bytes, cpspec_stream stream) {
#ifdef __CUDACC__
    const cudaError_t error = cudaMemsetAsync(memory, 0, bytes, static_cast<cudaStream_t>(stream));
    if (error != cudaSuccess) return fail(CPSPEC_DEVICE_ERROR, "%s: %s", operation, cudaGetErrorString(error));
#else
    (void)operation, (void)stream;
    emulation::clear(memory, bytes);
#endif
    return CPSPEC_OK;
}

}  // namespace cpspec
