// Which tokens of a row in shared memory survive top-k and top-p (the arithmetic is core/filter.h).
//
// A token's place in the order of its row is its distance below the maximum and then its index, as one 64-bit number.
// Whatever found it, a selection is one limit: the tokens whose place is no greater survive.
#pragma once

#include "radix.cuh"
#include "sort.cuh"

namespace cpspec {

struct SelectScratch {
    BlockScratch block;
    Bin bin;
    uint32_t count;
    union {
        uint32_t counts[kBins];
        unsigned long long masses[kBins];
        uint64_t places[kSortCapacity];
    };
};

struct Selection {
    uint64_t limit;
    uint64_t mass;  // of the survivors together
};

constexpr uint64_t kNoLimit = 0xffffffffffffffffull;
constexpr uint32_t kAnyIndex = 0xffffffffu;

CPSPEC_HD uint64_t place_of(uint32_t distance, uint32_t index) { return uint64_t(distance) << 32 | index; }
CPSPEC_HD uint64_t mass_at(uint32_t distance) { return mass_of(exp_(shifted_of_distance(distance))); }

// Index of the n-th i in [begin, end), counted from 1, for which tied(i) holds. There are at least n.
template <class Tied>
__device__ uint32_t index_of_tied(const Tied& tied, int begin, int end, uint64_t n, Bin& found, BlockScratch& scratch) {
    const int share = (end - begin + int(blockDim.x) - 1) / int(blockDim.x);
    const int first = begin + int(threadIdx.x) * share;
    const int last = first + share < end ? first + share : end;
    uint64_t own = 0;
    for (int i = first; i < last; ++i) own += tied(i);
    const uint64_t through = block_prefix(own, scratch).inclusive;
    if (through - own < n && n <= through) {
        uint64_t left = n - (through - own);
        int i = first;
        while (!tied(i) || --left > 0) ++i;
        found.index = uint32_t(i);
    }
    __syncthreads();
    const uint32_t index = found.index;
    __syncthreads();
    return index;
}

struct TiedAt {
    const uint32_t* distances;
    uint32_t distance;
    __device__ bool operator()(int i) const { return distances[i] == distance; }
};

__device__ inline uint64_t limit_at_tied(const uint32_t* distances, int vocabulary, uint32_t distance, uint64_t n,
                                         SelectScratch& scratch) {
    const TiedAt tied{distances, distance};
    return place_of(distance, index_of_tied(tied, 0, vocabulary, n, scratch.bin, scratch.block));
}

// The limit that exactly `kept` tokens keep, 0 < kept < vocabulary.
__device__ inline uint64_t limit_of_count(const uint32_t* distances, int vocabulary, uint64_t kept,
                                          SelectScratch& scratch) {
    Border border{0, 0, kept};
    for (int digit = 0; digit < kDigits; ++digit) {
        for (int bin = int(threadIdx.x); bin < kBins; bin += int(blockDim.x)) scratch.counts[bin] = 0;
        __syncthreads();
        for (int i = int(threadIdx.x); i < vocabulary; i += int(blockDim.x))
            if (may_be_border(border, distances[i])) atomicAdd(&scratch.counts[digit_of(distances[i], digit)], 1u);
        __syncthreads();
        const Bin bin = bin_reaching(scratch.counts, border.missing, scratch.bin, scratch.block);
        narrow(border, digit, bin);
        if (border.missing == bin.held) return place_of(last_of(border), kAnyIndex);  // its bin is kept whole
    }
    return limit_at_tied(distances, vocabulary, border.prefix, border.missing, scratch);
}

__device__ inline uint64_t mass_within(const uint32_t* distances, int vocabulary, uint64_t limit,
                                       SelectScratch& scratch) {
    uint64_t mass = 0;
    for (int i = int(threadIdx.x); i < vocabulary; i += int(blockDim.x))
        if (place_of(distances[i], uint32_t(i)) <= limit) mass += mass_at(distances[i]);
    return block_reduce(mass, Sum(), scratch.block);
}

// The smallest prefix that holds top_p of the mass, of the `kept` <= kSortCapacity tokens within `limit`: sorted, then
// summed from the front.
__device__ inline Selection cut_sorted(const uint32_t* distances, int vocabulary, uint64_t limit, int kept,
                                       float top_p, SelectScratch& scratch) {
    const int size = sort_size(kept);
    for (int i = int(threadIdx.x); i < size; i += int(blockDim.x)) scratch.places[i] = kNoLimit;
    if (threadIdx.x == 0) scratch.count = 0;
    __syncthreads();
    for (int i = int(threadIdx.x); i < vocabulary; i += int(blockDim.x)) {
        const uint64_t place = place_of(distances[i], uint32_t(i));
        if (place <= limit) scratch.places[atomicAdd(&scratch.count, 1u)] = place;
    }
    __syncthreads();
    sort_ascending(scratch.places, size);

    const int share = (size + int(blockDim.x) - 1) / int(blockDim.x), begin = int(threadIdx.x) * share;
    const int end = begin + share < kept ? begin + share : kept;
    uint64_t own = 0;
    for (int i = begin; i < end; ++i) own += mass_at(uint32_t(scratch.places[i] >> 32));
    const Prefix prefix = block_prefix(own, scratch.block);
    const uint64_t needed = needed_mass(top_p, prefix.total);
    uint64_t through = prefix.inclusive - own;
    if (through < needed && needed <= prefix.inclusive) {
        int i = begin;
        while ((through += mass_at(uint32_t(scratch.places[i] >> 32))) < needed) ++i;
        scratch.bin.before = scratch.places[i];
        scratch.bin.held = through;
    }
    __syncthreads();
    const Selection selection{scratch.bin.before, scratch.bin.held};
    __syncthreads();
    return selection;
}

// The same for any number of tokens within `limit`: radix selection with mass in place of counts.
__device__ inline Selection cut_by_radix(const uint32_t* distances, int vocabulary, uint64_t limit, float top_p,
                                         SelectScratch& scratch) {
    const uint64_t total = mass_within(distances, vocabulary, limit, scratch);
    const uint64_t needed = needed_mass(top_p, total);
    Border border{0, 0, needed};
    for (int digit = 0; digit < kDigits; ++digit) {
        for (int bin = int(threadIdx.x); bin < kBins; bin += int(blockDim.x)) scratch.masses[bin] = 0;
        __syncthreads();
        for (int i = int(threadIdx.x); i < vocabulary; i += int(blockDim.x)) {
            const uint32_t distance = distances[i];
            if (!may_be_border(border, distance) || place_of(distance, uint32_t(i)) > limit) continue;
            atomicAdd(&scratch.masses[digit_of(distance, digit)], (unsigned long long)mass_at(distance));
        }
        __syncthreads();
        narrow(border, digit, bin_reaching(scratch.masses, border.missing, scratch.bin, scratch.block));
    }
    const uint64_t each = mass_at(border.prefix), before = needed - border.missing;
    const uint64_t tied = kept_of_tied(needed, before, each);
    return {limit_at_tied(distances, vocabulary, border.prefix, tied, scratch), before + tied * each};
}

// Everything: top-k, then top-p of what it left.
__device__ inline Selection select_survivors(const uint32_t* distances, int vocabulary, uint64_t kept, bool cuts,
                                             float top_p, SelectScratch& scratch) {
    const uint64_t limit =
        kept < uint64_t(vocabulary) ? limit_of_count(distances, vocabulary, kept, scratch) : kNoLimit;
    if (!cuts) return {limit, mass_within(distances, vocabulary, limit, scratch)};
    if (kept <= uint64_t(kSortCapacity))
        return cut_sorted(distances, vocabulary, limit, int(kept), top_p, scratch);
    return cut_by_radix(distances, vocabulary, limit, top_p, scratch);
}

}  // namespace cpspec
