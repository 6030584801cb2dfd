// A bitonic sort of a few 64-bit numbers in shared memory (Batcher, 1968).
#pragma once

#include "block_ops.cuh"

namespace cpspec {

// Survivors that are sorted; more are cut by radix selection on their mass.
constexpr int kSortCapacity = 512;

// The power of two that holds `count` numbers.
CPSPEC_HD int sort_size(int count) {
    int size = 1;
    while (size < count) size *= 2;
    return size;
}

// Called by all threads of a block, after a barrier; ends with one. `size` is a power of two.
__device__ inline void sort_ascending(uint64_t* numbers, int size) {
    for (int run = 2; run <= size; run *= 2) {
        for (int distance = run / 2; distance > 0; distance /= 2) {
            for (int pair = int(threadIdx.x); pair < size / 2; pair += int(blockDim.x)) {
                // The pair's lower place: a 0 bit put into `pair` where `distance` has its 1.
                const int low = 2 * pair - (pair & (distance - 1)), high = low + distance;
                const bool ascending = (low & run) == 0;
                const uint64_t a = numbers[low], b = numbers[high];
                if ((a > b) != ascending) continue;
                numbers[low] = b;
                numbers[high] = a;
            }
            __syncthreads();
        }
    }
}

}  // namespace cpspec
