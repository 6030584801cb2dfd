// Copies of rows of any element type, by all threads of a block or by one thread per column.
#pragma once

#include "cpspec/kernels.h"
#include "block_ops.cuh"

namespace cpspec {

CPSPEC_HD int64_t element_bytes(cpspec_dtype dtype) { return dtype == CPSPEC_FLOAT32 ? 4 : 2; }

CPSPEC_HD bool in_range(int64_t index, int64_t size) { return index >= 0 && index < size; }

// The widest unit in which both addresses and the length can be copied; every element has 2 bytes or more.
CPSPEC_HD int64_t copy_unit(const void* to, const void* from, int64_t bytes) {
    return ((uintptr_t(to) | uintptr_t(from) | uintptr_t(bytes)) % sizeof(uint4)) == 0 ? int64_t(sizeof(uint4)) : 2;
}

__device__ __forceinline__ void copy_one(void* to, const void* from, int64_t unit, int64_t index) {
    if (unit == 2)
        static_cast<uint16_t*>(to)[index] = static_cast<const uint16_t*>(from)[index];
    else
        static_cast<uint4*>(to)[index] = static_cast<const uint4*>(from)[index];
}

// Zeros where `from` is null.
__device__ inline void copy_bytes(void* to, const void* from, int64_t bytes) {
    const int64_t unit = copy_unit(to, from, bytes);
    for (int64_t i = threadIdx.x; i < bytes / unit; i += blockDim.x) {
        if (from)
            copy_one(to, from, unit, i);
        else if (unit == 2)
            static_cast<uint16_t*>(to)[i] = 0;
        else
            static_cast<uint4*>(to)[i] = uint4{0, 0, 0, 0};
    }
}

}  // namespace cpspec
