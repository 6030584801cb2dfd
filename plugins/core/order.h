// Integer keys that order floats: selecting and comparing by them is exact and does not depend on the order of work.
#pragma once

#include "platform.h"

namespace cpspec {

constexpr int32_t kKeyOfInfinity = 0x7f800000;
constexpr int32_t kKeyOfMinusInfinity = int32_t(0x807fffffu);

// Rises with the value. NaN lies beyond either infinity, so the extremes of a row's keys show whether it is finite.
// -0 comes before +0: add 0.0f first where they must tie.
CPSPEC_HD int32_t rising_key(float value) {
    const uint32_t bits = bits_of(value);
    return int32_t(bits ^ ((bits >> 31) * 0x7fffffffu));
}

CPSPEC_HD float value_of_key(int32_t key) {
    const uint32_t bits = uint32_t(key);
    return float_of(bits ^ ((bits >> 31) * 0x7fffffffu));
}

// Values of cpspec_row_error.
CPSPEC_HD int32_t row_error(int32_t lowest_key, int32_t highest_key) {
    if (highest_key >= kKeyOfInfinity || lowest_key < kKeyOfMinusInfinity) return 1;
    return highest_key == kKeyOfMinusInfinity ? 2 : 0;
}

// The distance below the row's maximum as a key for radix selection: of a shifted logit <= 0, 31 bits, smaller is
// more probable. Both zeros give 0. Equal keys are tied; the lower index goes first.
CPSPEC_HD uint32_t distance_key(float shifted) { return bits_of(shifted) & 0x7fffffffu; }

CPSPEC_HD float shifted_of_distance(uint32_t key) { return float_of(key | 0x80000000u); }

}  // namespace cpspec
