// a * b + c, rounded once: by the instruction where there is one, else exactly through double.
#pragma once

#include "platform.h"

namespace cpspec {

// The product of two floats is exact in double. The sum is rounded to odd (the last bit of an inexact sum is set),
// after which rounding to float gives the correctly rounded result (Boldo and Melquiond, 2008).
CPSPEC_HD float fma_through_double(float a, float b, float c) {
    const double product = double(a) * double(b);
    const double addend = double(c);
    const double sum = product + addend;
    const double shadow = sum - product;
    const double lost = (product - (sum - shadow)) + (addend - shadow);  // Knuth's TwoSum
    uint64_t bits;
    __builtin_memcpy(&bits, &sum, sizeof bits);
    // Ordered comparisons: false where inf or NaN made `lost` NaN.
    const bool inexact = lost > 0 || lost < 0;
    const bool outward = (lost > 0) == (sum > 0);
    const uint64_t odd = (bits & 1) ? bits : (outward ? bits + 1 : bits - 1);
    bits = inexact ? odd : bits;
    double rounded;
    __builtin_memcpy(&rounded, &bits, sizeof rounded);
    return float(rounded);
}

CPSPEC_HD float fma_(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#elif defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    return fma_through_double(a, b, c);
#endif
}

}  // namespace cpspec
