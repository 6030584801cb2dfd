#include "device_tools.h"

#include <cuda_runtime.h>

#include <cstdio>

namespace {

thread_local char last_error[256] = "";

bool failed(cudaError_t error, const char* action) {
    if (error == cudaSuccess) return false;
    std::snprintf(last_error, sizeof last_error, "%s: %s", action, cudaGetErrorString(error));
    return true;
}

cudaStream_t of(cpspec_stream stream) { return static_cast<cudaStream_t>(stream); }

cudaError_t prefetch(const void* memory, size_t bytes, cudaStream_t stream) {
#if CUDART_VERSION >= 13000
    cudaMemLocation device{};
    device.type = cudaMemLocationTypeDevice;
    device.id = 0;
    return cudaMemPrefetchAsync(memory, bytes, device, 0, stream);
#else
    return cudaMemPrefetchAsync(memory, bytes, 0, stream);
#endif
}

}  // namespace

const char* cpspec_device_error(void) { return last_error; }

int32_t cpspec_device_count(void) {
    int count = 0;
    return failed(cudaGetDeviceCount(&count), "cudaGetDeviceCount") ? 0 : count;
}

const char* cpspec_device_name(void) {
    static char name[320];
    cudaDeviceProp properties;
    if (failed(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties")) return nullptr;
    std::snprintf(name, sizeof name, "%s, sm_%d%d", properties.name, properties.major, properties.minor);
    return name;
}

void* cpspec_device_allocate(size_t bytes) {
    void* memory = nullptr;
    return failed(cudaMallocManaged(&memory, bytes), "cudaMallocManaged") ? nullptr : memory;
}

int32_t cpspec_device_release(void* memory) { return failed(cudaFree(memory), "cudaFree"); }

int32_t cpspec_device_prefetch(const void* memory, size_t bytes, cpspec_stream stream) {
    return failed(prefetch(memory, bytes, of(stream)), "cudaMemPrefetchAsync");
}

cpspec_stream cpspec_device_stream(void) {
    cudaStream_t stream = nullptr;
    const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return failed(error, "cudaStreamCreateWithFlags") ? nullptr : stream;
}

int32_t cpspec_device_synchronise(cpspec_stream stream) {
    return failed(cudaStreamSynchronize(of(stream)), "cudaStreamSynchronize");
}

int32_t cpspec_device_begin_capture(cpspec_stream stream) {
    return failed(cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

void* cpspec_device_end_capture(cpspec_stream stream) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    if (failed(cudaStreamEndCapture(of(stream), &graph), "cudaStreamEndCapture")) return nullptr;
    const bool refused = failed(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
    return refused ? nullptr : executable;
}

int32_t cpspec_device_release_graph(void* graph) {
    return failed(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)), "cudaGraphExecDestroy");
}

int32_t cpspec_device_time_graph(void* graph, int32_t replays, float* milliseconds, cpspec_stream stream) {
    cudaEvent_t begin = nullptr, end = nullptr;
    bool fault = failed(cudaEventCreate(&begin), "cudaEventCreate") || failed(cudaEventCreate(&end), "cudaEventCreate");
    for (int32_t replay = 0; replay < replays && !fault; ++replay) {
        fault = failed(cudaEventRecord(begin, of(stream)), "cudaEventRecord") ||
                failed(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), of(stream)), "cudaGraphLaunch") ||
                failed(cudaEventRecord(end, of(stream)), "cudaEventRecord") ||
                failed(cudaEventSynchronize(end), "cudaEventSynchronize") ||
                failed(cudaEventElapsedTime(&milliseconds[replay], begin, end), "cudaEventElapsedTime");
    }
    if (begin) cudaEventDestroy(begin);
    if (end) cudaEventDestroy(end);
    return fault;
}
