// Radix selection by integer keys, one bit a pass from the highest: a pass is a comparison and a sum over the row,
// which the compiler vectorises, and no pass writes. Its cost depends on the row's length alone.
//
// Included by level.cpp only.
#pragma once

#include "../core/filter.h"
#include "lanes.h"

namespace cpspec {

constexpr int kHighestKeyBit = 30;

// The tokens kept: all keys below `border`, and the first `ties` of those equal to it.
struct Cut {
    uint32_t border;
    int64_t ties;
};

static int64_t count_below(const uint32_t* keys, int64_t n, uint32_t limit) {
    int32_t count = 0;  // a vocabulary fits; a narrow sum fills more lanes
    for (int64_t i = 0; i < n; ++i) count += keys[i] < limit ? 1 : 0;
    return count;
}

static uint64_t mass_below(const uint32_t* keys, const uint64_t* mass, int64_t n, uint32_t limit) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += keys[i] < limit ? mass[i] : 0;
    return sum;
}

// Keeps exactly `kept` of n keys, 0 < kept < n. No key is above `largest`.
static Cut select_count(const uint32_t* keys, int64_t n, int64_t kept, uint32_t largest) {
    uint32_t border = 0;
    int64_t below = 0;
    for (int bit = kHighestKeyBit; bit >= 0; --bit) {
        const uint32_t trial = border | (1u << bit);
        if (trial > largest) continue;  // all are below it
        const int64_t count = count_below(keys, n, trial);
        if (count == kept) return Cut{trial, 0};
        if (count < kept) {
            border = trial;
            below = count;
        }
    }
    return Cut{border, kept - below};
}

struct MassCut {
    Cut cut;
    uint64_t kept;
};

// Keeps the smallest prefix, in order of key and then of index, whose mass reaches `needed`. No key is above `largest`.
static MassCut select_mass(const uint32_t* keys, const uint64_t* mass, int64_t n, uint64_t needed, uint32_t largest) {
    uint32_t border = 0;
    uint64_t before = 0;
    for (int bit = kHighestKeyBit; bit >= 0; --bit) {
        const uint32_t trial = border | (1u << bit);
        if (trial > largest) continue;
        const uint64_t sum = mass_below(keys, mass, n, trial);
        if (sum < needed) {
            border = trial;
            before = sum;
        }
    }
    const uint64_t each = mass_of(exp_(shifted_of_distance(border)));
    const uint64_t ties = kept_of_tied(needed, before, each);
    return MassCut{Cut{border, int64_t(ties)}, before + ties * each};
}

// Whether each of up to 32 words, as signed numbers, is below `limit`: bit i for words[i].
static uint32_t block_less(const void* words, int64_t begin, int64_t n, int32_t limit) {
    const char* first = static_cast<const char*>(words) + begin * 4;
    if (n - begin >= 32) return mask_less(first, limit);
    int32_t padded[32];
    for (int i = 0; i < 32; ++i) padded[i] = INT32_MAX;
    __builtin_memcpy(padded, first, size_t(n - begin) * 4);
    return mask_less(padded, limit);
}

// The indices of what a cut keeps, ascending; returns how many.
static int64_t collect(const uint32_t* keys, int64_t n, Cut cut, uint32_t* index) {
    const int32_t border = int32_t(cut.border);
    int64_t found = 0;
    int64_t ties = cut.ties;
    for (int64_t begin = 0; begin < n; begin += 32) {
        uint32_t kept = block_less(keys, begin, n, border);
        if (ties > 0) {
            uint32_t tied = block_less(keys, begin, n, border + 1) & ~kept;
            for (; tied && ties > 0; --ties) {
                kept |= tied & (0u - tied);
                tied &= tied - 1;
            }
        }
        for (; kept; kept &= kept - 1) index[found++] = uint32_t(begin + __builtin_ctz(kept));
    }
    return found;
}

// The indices of the positive numbers of a row without NaN, ascending; returns how many.
static int64_t collect_positive(const float* values, int64_t n, uint32_t* index) {
    int64_t found = 0;
    for (int64_t begin = 0; begin < n; begin += 32) {
        const uint32_t inside = n - begin >= 32 ? 0xffffffffu : (1u << (n - begin)) - 1u;
        uint32_t kept = ~block_less(values, begin, n, 1) & inside;
        for (; kept; kept &= kept - 1) index[found++] = uint32_t(begin + __builtin_ctz(kept));
    }
    return found;
}

}  // namespace cpspec
