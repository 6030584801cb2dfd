/* What scripts/gpu_check.py and the tests need of a device beside the kernels: memory, a stream, a graph, a clock.
 *
 * Not a part of the product: only libcpspec_cuda_checked.so, the CUDA library with these functions beside it, has them.
 * A function that can fail returns 0 or NULL on success as noted, and leaves the reason in cpspec_device_error. */
#ifndef CPSPEC_DEVICE_TOOLS_H
#define CPSPEC_DEVICE_TOOLS_H

#include "cpspec/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Devices that can be used: 0 without a driver. */
CPSPEC_API int32_t cpspec_device_count(void);

/* Name and compute capability of the first device, for example "NVIDIA H200, sm_90". NULL on failure. */
CPSPEC_API const char* cpspec_device_name(void);

CPSPEC_API const char* cpspec_device_error(void);

/* Memory that both the host and the device address, at the same address. NULL on failure. */
CPSPEC_API void* cpspec_device_allocate(size_t bytes);
CPSPEC_API int32_t cpspec_device_release(void* memory);

/* Moves such memory to the device, so that a kernel that is timed does not wait for its pages. */
CPSPEC_API int32_t cpspec_device_prefetch(const void* memory, size_t bytes, cpspec_stream stream);

/* NULL on failure. */
CPSPEC_API cpspec_stream cpspec_device_stream(void);
CPSPEC_API int32_t cpspec_device_synchronise(cpspec_stream stream);

/* Everything that is enqueued between the two becomes a graph. NULL on failure. */
CPSPEC_API int32_t cpspec_device_begin_capture(cpspec_stream stream);
CPSPEC_API void* cpspec_device_end_capture(cpspec_stream stream);
CPSPEC_API int32_t cpspec_device_release_graph(void* graph);

/* Replays a graph and measures every replay, in milliseconds. */
CPSPEC_API int32_t cpspec_device_time_graph(void* graph, int32_t replays, float* milliseconds, cpspec_stream stream);

#ifdef __cplusplus
}
#endif

#endif
