// One row of logits, from memory to a block's shared memory as distances below its maximum, and from there to
// probabilities and a draw.
#pragma once

#include "cpspec/kernels.h"
#include "../core/narrow.h"
#include "../core/philox.h"
#include "select.cuh"

namespace cpspec {

// Where a row's logits come from.
template <class Element>
struct PlainLogits {
    const Element* row;
    __device__ float at(int i) const { return widen(row[i]); }
};

// Written by other blocks of the same launch, so past the cache that blocks do not share.
struct FreshLogits {
    const float* row;
    __device__ float at(int i) const { return __ldcg(row + i); }
};

// The Talker's, with its processors applied.
template <class Element>
struct TalkerLogits {
    const Element* row;
    const uint8_t* seen;
    const uint8_t* suppressed;
    float penalty;
    int64_t banned;  // a code, or -1
    __device__ float at(int i) const {
        return processed(widen(row[i]), seen[i] != 0, penalty, suppressed[i] != 0 || i == banned);
    }
};

struct RowFilter {
    float temperature;
    int32_t top_k;
    float top_p;
};

__device__ __forceinline__ RowFilter filter_of(const cpspec_filter_rows& filters, int64_t row) {
    return {filters.temperature[row], filters.top_k[row], filters.top_p[row]};
}

__device__ __forceinline__ Noise noise_of(const cpspec_noise_rows& noise, int64_t row) {
    return {noise.seeds[row], noise.streams[row], noise.frames[row]};
}

// The extreme keys of a row as two numbers that both grow: a block finds them in one reduction.
CPSPEC_HD uint64_t extremes_of(int32_t key) {
    const uint32_t rising = uint32_t(key) ^ 0x80000000u;
    return uint64_t(rising) << 32 | uint32_t(~rising);
}
CPSPEC_HD int32_t highest_of(uint64_t extremes) { return int32_t(uint32_t(extremes >> 32) ^ 0x80000000u); }
CPSPEC_HD int32_t lowest_of(uint64_t extremes) { return int32_t(~uint32_t(extremes) ^ 0x80000000u); }

// Fills `distances` [vocabulary] and returns the row's error; where it is not sound, they are meaningless.
template <class Logits>
__device__ int32_t load_distances(const Logits& logits, int vocabulary, float temperature, uint32_t* distances,
                                  BlockScratch& scratch) {
    const float divisor = divisor_of(temperature);
    uint64_t extremes = 0;
    for (int i = int(threadIdx.x); i < vocabulary; i += int(blockDim.x)) {
        const float scaled = logits.at(i) / divisor;
        distances[i] = bits_of(scaled);
        extremes = LargestHalves()(extremes, extremes_of(rising_key(scaled)));
    }
    extremes = block_reduce(extremes, LargestHalves(), scratch);
    const float highest = value_of_key(highest_of(extremes));
    for (int i = int(threadIdx.x); i < vocabulary; i += int(blockDim.x))
        distances[i] = distance_key(float_of(distances[i]) - highest);
    __syncthreads();
    return row_error(lowest_of(extremes), highest_of(extremes));
}

// A contender of a race as one number: the higher score wins, then the lower token. 0 stands for none.
CPSPEC_HD uint64_t contender(float score, uint32_t token) {
    const uint32_t rising = uint32_t(rising_key(score + 0.0f)) ^ 0x80000000u;  // -0 and +0 tie
    return uint64_t(rising) << 32 | uint32_t(~token);
}
CPSPEC_HD int64_t winner_of(uint64_t contender) { return contender ? int64_t(uint32_t(~uint32_t(contender))) : -1; }

CPSPEC_HD uint32_t lane_of(const Words4& words, int lane) {
    return lane == 0 ? words.w0 : lane == 1 ? words.w1 : lane == 2 ? words.w2 : words.w3;
}

// The score of a contender, -inf of none.
CPSPEC_HD float score_of(uint64_t contender) {
    return value_of_key(contender ? int32_t(uint32_t(contender >> 32) ^ 0x80000000u) : kKeyOfMinusInfinity);
}

// The contenders among the four tokens that share a block of random words; `each` learns of them in turn.
template <class Each>
CPSPEC_HD void race_quad(const float* probabilities, uint32_t quad, Noise noise, const Each& each) {
    bool any = false;
    for (int lane = 0; lane < 4; ++lane) any |= probabilities[lane] > 0.0f;
    if (!any) return;
    const Words4 words = quad_words(noise, quad);
    for (int lane = 0; lane < 4; ++lane) {
        if (!(probabilities[lane] > 0.0f)) continue;
        const float score = race_score(probabilities[lane], lane_of(words, lane));
        each(contender(score, 4 * quad + uint32_t(lane)));
    }
}

CPSPEC_HD uint64_t best_of_quad(const float* probabilities, uint32_t quad, Noise noise) {
    uint64_t best = 0;
    race_quad(probabilities, quad, noise, [&](uint64_t own) { best = own > best ? own : best; });
    return best;
}

// A thread's share of a race over `probability.at(i)`.
template <class Probability, class Each>
__device__ void race_share(const Probability& probability, int vocabulary, Noise noise, const Each& each) {
    for (int quad = int(threadIdx.x); 4 * quad < vocabulary; quad += int(blockDim.x)) {
        float own[4];
        for (int lane = 0; lane < 4; ++lane) {
            const int i = 4 * quad + lane;
            own[lane] = i < vocabulary ? probability.at(i) : 0.0f;
        }
        race_quad(own, uint32_t(quad), noise, each);
    }
}

// The block's best contender of a race, 0 where nothing has mass.
template <class Probability>
__device__ uint64_t race(const Probability& probability, int vocabulary, Noise noise, BlockScratch& scratch) {
    uint64_t best = 0;
    race_share(probability, vocabulary, noise, [&](uint64_t own) { best = own > best ? own : best; });
    return block_reduce(best, Largest(), scratch);
}

// Two contenders; 0 stands for none.
struct TopTwo {
    uint64_t best, second;
    __device__ void add(uint64_t own) {
        const uint64_t lesser = own < best ? own : best;
        best = own < best ? best : own;
        second = lesser > second ? lesser : second;
    }
    // +inf where there is no second one.
    __device__ float gap() const { return score_of(best) - score_of(second); }
};

// The block's two best, of those of its threads.
__device__ inline TopTwo block_top_two(const TopTwo& own, BlockScratch& scratch) {
    const uint64_t best = block_reduce(own.best, Largest(), scratch);
    return {best, block_reduce(own.best == best ? own.second : own.best, Largest(), scratch)};
}

// What becomes of a row: dense probabilities, and a code where `codes` is given.
struct RowOutput {
    float* probabilities;  // [R, vocabulary]
    int64_t* codes;        // [R] or null
    int32_t* errors;       // [R]
};

// Filters row `row`, and draws from it where `output.codes` is given. `distances` is shared memory [vocabulary].
template <class Logits>
__device__ void finish_row(const Logits& logits, int64_t row, int vocabulary, const RowFilter& filter, Noise noise,
                           const RowOutput& output, uint32_t* distances, SelectScratch& scratch) {
    const int32_t error = load_distances(logits, vocabulary, filter.temperature, distances, scratch.block);
    Selection selection{0, 0};
    if (!error)
        selection = select_survivors(distances, vocabulary, kept_by_top_k(filter.top_k, filter.temperature, vocabulary),
                                     cuts_mass(filter.top_p, filter.temperature), filter.top_p, scratch);
    const float sum = weight_of_mass(selection.mass);
    float* const probabilities = output.probabilities + row * vocabulary;
    uint64_t best = 0;
    for (int quad = int(threadIdx.x); 4 * quad < vocabulary; quad += int(blockDim.x)) {
        float own[4];
        for (int lane = 0; lane < 4; ++lane) {
            const int i = 4 * quad + lane;
            const bool kept = !error && i < vocabulary && place_of(distances[i], uint32_t(i)) <= selection.limit;
            own[lane] = kept ? exp_(shifted_of_distance(distances[i])) / sum : 0.0f;
            if (i < vocabulary) probabilities[i] = own[lane];
        }
        if (!output.codes) continue;
        best = Largest()(best, best_of_quad(own, uint32_t(quad), noise));
    }
    if (output.codes) {
        best = block_reduce(best, Largest(), scratch.block);
        if (threadIdx.x == 0) output.codes[row] = winner_of(best);
    }
    if (threadIdx.x == 0) output.errors[row] = error;
    __syncthreads();  // `distances` may be filled again
}

}  // namespace cpspec
