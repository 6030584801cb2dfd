// The border of a selection, digit by digit from the highest: histograms of the keys that share the digits read so
// far, each narrowed to the bin in which the running sum reaches what is wanted (tokens, or mass).
#pragma once

#include "../core/filter.h"
#include "block_ops.cuh"

namespace cpspec {

// Three digits make up a 31-bit key: 11, 10 and 10 bits. Wide ones, because the first decides mostly by the exponent,
// of which logits have few: with 2048 bins threads seldom meet in one.
constexpr int kDigits = 3;
constexpr int kBins = 2048;

CPSPEC_HD int digit_shift(int digit) { return 20 - 10 * digit; }
CPSPEC_HD uint32_t digit_of(uint32_t key, int digit) {
    return key >> digit_shift(digit) & (digit == 0 ? 0x7ffu : 0x3ffu);
}
CPSPEC_HD uint32_t mask_through(int digit) { return 0x7fffffffu & ~((1u << digit_shift(digit)) - 1u); }

// The border's key begins with `prefix` under `mask`; of the tokens that begin so, `missing` (tokens, or mass) are
// still wanted.
struct Border {
    uint32_t prefix, mask;
    uint64_t missing;
};

CPSPEC_HD bool may_be_border(const Border& border, uint32_t key) { return (key & border.mask) == border.prefix; }

// The largest key that begins like the border.
CPSPEC_HD uint32_t last_of(const Border& border) { return border.prefix | (0x7fffffffu & ~border.mask); }

// A bin, what it holds and what all bins below it hold.
struct Bin {
    uint32_t index;
    uint64_t held, before;
};

// The bin in which the running sum of the histogram reaches `missing` > 0; the histogram holds at least that much.
template <class Count>
__device__ Bin bin_reaching(const Count* histogram, uint64_t missing, Bin& found, BlockScratch& scratch) {
    const int bins = kBins / int(blockDim.x), first = int(threadIdx.x) * bins;
    uint64_t own = 0;
    for (int bin = first; bin < first + bins; ++bin) own += histogram[bin];
    const uint64_t end = block_prefix(own, scratch).inclusive;
    uint64_t before = end - own;
    if (before < missing && missing <= end) {
        int bin = first;
        for (; before + histogram[bin] < missing; ++bin) before += histogram[bin];
        found = Bin{uint32_t(bin), uint64_t(histogram[bin]), before};
    }
    __syncthreads();
    const Bin bin = found;
    __syncthreads();
    return bin;
}

CPSPEC_HD void narrow(Border& border, int digit, const Bin& bin) {
    border.prefix |= bin.index << digit_shift(digit);
    border.mask = mask_through(digit);
    border.missing -= bin.before;
}

}  // namespace cpspec
