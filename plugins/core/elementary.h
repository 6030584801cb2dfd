// exp, log and log1p in float32, by polynomials with explicit fused multiply-adds. Minimax coefficients, each rounded
// to float32 before the next was fitted. Largest errors over every float32 of the stated range, measured against
// double by tests/kernels/test_elementary.py:
//
//   exp_   [-87, 0]                 below 1 ulp; exactly 0 below -87, so no weight is subnormal
//   log_   (0, 3e38]                below 1 ulp, subnormal arguments included
//   log1p_ [-1 + 2^-24, -2^-126]    below 1 ulp
#pragma once

#include "fma.h"

namespace cpspec {

constexpr float kLn2 = 0.693147182464599609375f;
constexpr float kExpLowest = -87.0f;

// exp(x) = 2^i * exp(f) with i = round(x / ln 2) and |f| <= ln(2) / 2.
CPSPEC_HD float exp_(float x) {
    constexpr float kInverseLn2 = 1.44269502162933349609375f;
    constexpr float kRoundToInteger = 12582912.0f;  // 1.5 * 2^23: adding it leaves the integer in the low bits
    constexpr float kLn2High = 0.693145751953125f;  // 16 bits: i * kLn2High is exact
    constexpr float kLn2Low = 1.42860677e-6f;
    const float shifted = fma_(x, kInverseLn2, kRoundToInteger);
    const float i = shifted - kRoundToInteger;
    float f = fma_(i, -kLn2High, x);
    f = fma_(i, -kLn2Low, f);
    float r = 0.0013821452157571912f;
    r = fma_(r, f, 0.008368661627173424f);
    r = fma_(r, f, 0.041668254882097244f);
    r = fma_(r, f, 0.1666652113199234f);
    r = fma_(r, f, 0.4999999403953552f);
    r = fma_(r, f, 1.0f);
    r = fma_(r, f, 1.0f);
    const uint32_t exponent = bits_of(shifted) - bits_of(kRoundToInteger);
    const float scaled = r * float_of((exponent + 127u) << 23);
    return x < kExpLowest ? 0.0f : scaled;
}

// log(2^i * (1 + f)) for f in [-1/4, 1/2).
CPSPEC_HD float log_of_parts(float i, float f) {
    float r = -0.045152343809604645f;
    r = fma_(r, f, 0.10472557693719864f);
    r = fma_(r, f, -0.13163937628269196f);
    r = fma_(r, f, 0.14477629959583282f);
    r = fma_(r, f, -0.1664687842130661f);
    r = fma_(r, f, 0.19990848004817963f);
    r = fma_(r, f, -0.25000110268592834f);
    r = fma_(r, f, 0.3333345055580139f);
    r = fma_(r, f, -0.5f);
    r = fma_(r, f * f, f);
    return fma_(i, kLn2, r);
}

// The multiple of 2^23 that, taken from the bits of x > 0, leaves x / 2^i in [3/4, 3/2).
CPSPEC_HD uint32_t exponent_above_three_quarters(float x) { return (bits_of(x) - 0x3f400000u) & 0xff800000u; }

// i of such a multiple: i * 2^23 as a signed number, exact in float.
CPSPEC_HD float integer_exponent(uint32_t multiple) { return float(int32_t(multiple)) * 0x1p-23f; }

CPSPEC_HD float log_(float x) {
    const bool subnormal = x < 0x1p-126f;
    const float normal = subnormal ? x * 0x1p23f : x;
    const uint32_t e = exponent_above_three_quarters(normal);
    const float i = integer_exponent(e) - (subnormal ? 23.0f : 0.0f);
    return log_of_parts(i, float_of(bits_of(normal) - e) - 1.0f);
}

// log(1 + x): with 1 + x = 2^i * (1 + f), f = x / 2^i + (2^-i - 1), in which nothing of a small x is lost.
CPSPEC_HD float log1p_(float x) {
    const uint32_t e = exponent_above_three_quarters(1.0f + x);
    const float scale = float_of(0x3f800000u - e);  // 2^-i
    const float f = fma_(x, scale, scale - 1.0f);
    return log_of_parts(integer_exponent(e), f);
}

}  // namespace cpspec
