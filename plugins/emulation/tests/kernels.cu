// Small kernels, most of them wrong in one way each, to hold the emulation to what it promises.
#include <cstdint>
#include <cstring>

#include "../../cuda/platform.cuh"

namespace {

struct Values {
    int at[64];
};

__global__ void reverse(int* out) {
    CPSPEC_SHARED(Values, values);
    values.at[threadIdx.x] = static_cast<int>(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = values.at[63 - threadIdx.x];
}

__global__ void reverse_without_barrier(int* out) {
    CPSPEC_SHARED(Values, values);
    values.at[threadIdx.x] = static_cast<int>(threadIdx.x);
    out[threadIdx.x] = values.at[63 - threadIdx.x];
}

// Right in the natural order of threads, where 0 always comes first.
__global__ void read_first_without_barrier(int* out) {
    CPSPEC_SHARED(Values, values);
    if (threadIdx.x == 0) values.at[0] = 7;
    out[threadIdx.x] = values.at[0];
}

template <int kStep>
__device__ int stepped(int value) {
    CPSPEC_SHARED(Values, values);
    values.at[threadIdx.x] = value;
    __syncthreads();
    return values.at[(threadIdx.x + kStep) % 64];
}

// Two instances of a template own two objects.
__global__ void template_objects(int* out) {
    const int first = stepped<1>(static_cast<int>(threadIdx.x));
    out[threadIdx.x] = first * 100 + stepped<2>(static_cast<int>(threadIdx.x));
}

__global__ void reverse_dynamic(int* out) {
    CPSPEC_DYNAMIC_SHARED(int, values);
    values[threadIdx.x] = static_cast<int>(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = values[63 - threadIdx.x];
}

__global__ void write_beside_dynamic(int* out) {
    CPSPEC_DYNAMIC_SHARED(int, values);
    values[threadIdx.x + 1] = 1;
    out[threadIdx.x] = 0;
}

__global__ void write_beside_object(int* out) {
    CPSPEC_SHARED(Values, values);
    int* beside = values.at;
    beside[threadIdx.x + 1] = 1;
    out[threadIdx.x] = 0;
}

__global__ void barrier_in_one_branch(int* out) {
    if (threadIdx.x < 40) __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void two_barriers_for_one(int* out) {
    if (threadIdx.x & 1)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void votes(int* out) {
    const int count = __syncthreads_count(threadIdx.x % 3 == 0);
    const int any = __syncthreads_or(threadIdx.x == 63);
    const int none = __syncthreads_or(threadIdx.x == 64);
    const int all = __syncthreads_and(threadIdx.x < 64);
    const int not_all = __syncthreads_and(threadIdx.x != 5);
    out[threadIdx.x] = count * 10000 + any * 1000 + none * 100 + all * 10 + not_all;
}

__global__ void warp_sums(int* out) {
    int sum = static_cast<int>(threadIdx.x);
    for (int flip = 16; flip; flip /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, flip);
    int prefix = 1;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(0xFFFFFFFFu, prefix, distance);
        if (threadIdx.x % 32 >= distance) prefix += other;
    }
    const int last = __shfl_down_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x), 1);
    const unsigned odd = __ballot_sync(0xFFFFFFFFu, threadIdx.x & 1);
    __syncwarp();
    out[threadIdx.x] = sum * 100000 + prefix * 1000 + last * 10 + (odd == 0xAAAAAAAAu);
}

// Two halves of a warp work apart, each under its own mask.
__global__ void half_warps(int* out) {
    const unsigned mask = threadIdx.x % 32 < 16 ? 0x0000FFFFu : 0xFFFF0000u;
    int sum = 1;
    if (mask & 1)
        for (int flip = 8; flip; flip /= 2) sum += __shfl_xor_sync(mask, sum, flip);
    else
        for (int flip = 8; flip; flip /= 2) sum += __shfl_xor_sync(mask, sum, flip);
    out[threadIdx.x] = sum;
}

__global__ void different_shuffles(int* out) {
    if (threadIdx.x % 2)
        out[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, 1, 1);
    else
        out[threadIdx.x] = __shfl_down_sync(0xFFFFFFFFu, 1, 1);
}

__global__ void different_masks(int* out) {
    out[threadIdx.x] = static_cast<int>(__ballot_sync(threadIdx.x % 2 ? 0xFFFFFFFFu : 0x7FFFFFFFu, 1));
}

__global__ void caller_outside_mask(int* out) { out[threadIdx.x] = static_cast<int>(__ballot_sync(0x0000FFFFu, 1)); }

__global__ void source_outside_mask(int* out) {
    if (threadIdx.x % 32 < 16) out[threadIdx.x] = __shfl_sync(0x0000FFFFu, 1, 20);
}

__global__ void lane_leaves_early(int* out) {
    if (threadIdx.x == 3) return;
    out[threadIdx.x] = static_cast<int>(__ballot_sync(0xFFFFFFFFu, 1));
}

__global__ void half_warp_waits_for_the_barrier(int* out) {
    if (threadIdx.x < 16) __syncwarp();
    __syncthreads();
    out[threadIdx.x] = 1;
}

// The order of arrival shows in the result: legal, and different from seed to seed.
__global__ void tickets(int* out) {
    CPSPEC_SHARED(int, next);
    if (threadIdx.x == 0) next = 0;
    __syncthreads();
    out[threadIdx.x] = atomicAdd(&next, 1);
}

__global__ void read_unwritten(int* out) {
    CPSPEC_SHARED(Values, values);
    out[threadIdx.x] = values.at[threadIdx.x];
}

struct TooMuch {
    char bytes[49 * 1024];
};

__global__ void too_much_shared(int* out) {
    CPSPEC_SHARED(TooMuch, object);
    out[threadIdx.x] = object.bytes[0];
}

__global__ void deep_recursion(int* out) {
    volatile char frame[1 << 20];
    frame[0] = 1;
    out[threadIdx.x] = frame[0];
}

struct Case {
    const char* name;
    void (*kernel)(int*);
    unsigned threads;
    unsigned dynamic_bytes;
};

const Case kCases[] = {
    {"reverse", reverse, 64, 0},
    {"reverse_without_barrier", reverse_without_barrier, 64, 0},
    {"read_first_without_barrier", read_first_without_barrier, 64, 0},
    {"template_objects", template_objects, 64, 0},
    {"reverse_dynamic", reverse_dynamic, 64, 64 * sizeof(int)},
    {"too_much_dynamic", reverse_dynamic, 64, 128 * 1024},
    {"write_beside_dynamic", write_beside_dynamic, 63, 63 * sizeof(int)},
    {"write_beside_object", write_beside_object, 64, 0},
    {"barrier_in_one_branch", barrier_in_one_branch, 64, 0},
    {"two_barriers_for_one", two_barriers_for_one, 64, 0},
    {"votes", votes, 64, 0},
    {"warp_sums", warp_sums, 64, 0},
    {"half_warps", half_warps, 64, 0},
    {"different_shuffles", different_shuffles, 64, 0},
    {"different_masks", different_masks, 64, 0},
    {"caller_outside_mask", caller_outside_mask, 64, 0},
    {"source_outside_mask", source_outside_mask, 64, 0},
    {"lane_leaves_early", lane_leaves_early, 64, 0},
    {"half_warp_waits_for_the_barrier", half_warp_waits_for_the_barrier, 64, 0},
    {"mask_beyond_the_block", warp_sums, 48, 0},
    {"tickets", tickets, 64, 0},
    {"read_unwritten", read_unwritten, 64, 0},
    {"too_much_shared", too_much_shared, 64, 0},
    {"stack_overflow", deep_recursion, 64, 0},
};

}  // namespace

// Runs a case with `out` int32 [64]. Null when the kernel kept the rules, else the fault.
extern "C" __attribute__((visibility("default"))) const char* emulation_run_case(const char* name, std::uint64_t seed,
                                                                               int poison, int* out) {
    emulation::options() = {seed, poison != 0, 64};
    for (const Case& each : kCases)
        if (!std::strcmp(each.name, name))
            return emulation::launch(name, each.kernel, 1, each.threads, each.dynamic_bytes, out)
                       ? nullptr
                       : emulation::last_fault().c_str();
    return "there is no such case";
}
