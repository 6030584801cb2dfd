// What the shared functions stand on: a function marked CPSPEC_HD runs on the host and on a device, and gives the
// same bits on both.
//
// Everything here is built without contraction (-ffp-contract=off, -fmad=false) and without fast-math: an operation
// rounds exactly where the text says so, and a fused multiply-add happens only where `fma_` is called.
//
// The functions are static: the CPU library compiles them once per instruction set, and an inline function with
// external linkage would let the linker keep the copy that older machines cannot run.
#pragma once

#include <stdint.h>

#if defined(__CUDACC__)
#define CPSPEC_HD static __host__ __device__ __forceinline__
#else
#define CPSPEC_HD static inline __attribute__((always_inline))
#endif

namespace cpspec {

CPSPEC_HD uint32_t bits_of(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

CPSPEC_HD float float_of(uint32_t bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace cpspec
