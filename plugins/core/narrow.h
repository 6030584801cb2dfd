// float16 and bfloat16 as they lie in memory. Widening is exact.
#pragma once

#include "platform.h"

namespace cpspec {

struct Float16 {
    uint16_t bits;
};

struct BFloat16 {
    uint16_t bits;
};

CPSPEC_HD float widen(float value) { return value; }

CPSPEC_HD float widen(BFloat16 value) { return float_of(uint32_t(value.bits) << 16); }

// The magnitude's bits, moved to a float32's place, are 2^112 too small, subnormals included.
CPSPEC_HD float widen(Float16 value) {
    const uint32_t sign = uint32_t(value.bits & 0x8000u) << 16;
    const uint32_t magnitude = uint32_t(value.bits & 0x7fffu) << 13;
    const uint32_t finite = bits_of(float_of(magnitude) * 0x1p112f);
    const uint32_t special = magnitude | 0x7f800000u;  // inf and NaN keep their payload
    return float_of(sign | ((value.bits & 0x7c00u) == 0x7c00u ? special : finite));
}

}  // namespace cpspec
