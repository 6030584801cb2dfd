// Grouped heads: every row of a call is one hidden row times one head, and rows that share a head read it once.
//
// A warp owns a few words of the vocabulary and sums them in the order of core/dot.h: lane l takes the elements l,
// l + 32, ..., so that every load of a warp is one contiguous piece, and a butterfly adds the lanes. A block owns the
// words of its warps, a tile, for all rows that share a head.
//
// Where more than the logits is wanted, the block that completes a row's last tile goes on to filter the row and to
// draw from it, so that a draft and a score are one launch each.
#pragma once

#include "../core/dot.h"
#include "row.cuh"

namespace cpspec {

constexpr int kWordsPerWarp = 2;  // loads of two words in flight at once, for one load of the hidden row
constexpr int kRowsAtOnce = 2;
constexpr int kUnroll = 8;
// Promised to the compiler, it leaves 128 registers a thread: more than the eight loads in flight need, and no spills.
constexpr unsigned kHeadBlocksPerMultiprocessor = 2;

CPSPEC_HD int64_t tile_words(unsigned threads) { return int64_t(threads / kWarpThreads) * kWordsPerWarp; }

struct HeadsInput {
    cpspec_heads heads;
    cpspec_head_rows rows;
    float* logits;  // [R, vocabulary]
};

// What follows the logits. Without `output.probabilities` nothing does.
struct RowFollowUp {
    cpspec_filter_rows filters;
    cpspec_noise_rows noise;  // read where output.codes is given
    uint32_t* arrivals;       // [R], tiles that are done; zero before and after
    RowOutput output;
};

__device__ __forceinline__ float warp_sum(float sum) {
    for (int flip = kWarpThreads / 2; flip > 0; flip /= 2) sum = sum + __shfl_xor_sync(kAllLanes, sum, flip);
    return sum;
}

// The products of a warp's words with kRows hidden rows; sums[row][word], the same in every lane.
template <int kRows, class Weight, class Hidden>
__device__ void multiply(const Weight* const (&weights)[kWordsPerWarp], const Hidden* const (&hidden)[kRows],
                         int width, float (&sums)[kRows][kWordsPerWarp]) {
    for (int row = 0; row < kRows; ++row)
        for (int word = 0; word < kWordsPerWarp; ++word) sums[row][word] = 0.0f;
#pragma unroll kUnroll
    for (int i = int(lane_index()); i < width; i += int(kWarpThreads)) {
        float w[kWordsPerWarp];
        for (int word = 0; word < kWordsPerWarp; ++word) w[word] = widen(weights[word][i]);
        for (int row = 0; row < kRows; ++row) {
            const float h = widen(hidden[row][i]);
            for (int word = 0; word < kWordsPerWarp; ++word) sums[row][word] = fma_(w[word], h, sums[row][word]);
        }
    }
    for (int row = 0; row < kRows; ++row)
        for (int word = 0; word < kWordsPerWarp; ++word) sums[row][word] = warp_sum(sums[row][word]);
}

// What a block works on: the rows from `first` on that share its head, and a tile of words.
struct Tile {
    int64_t head, first_row, first_word;
};

// Up to a block's threads of them at a time.
struct Sharers {
    int64_t rows[kMaxBlockThreads];
    bool complete[kMaxBlockThreads];
    unsigned count;
};

// The rows in [begin, begin + threads) that share the head.
__device__ inline void find_sharers(const HeadsInput& input, int64_t head, int64_t begin, Sharers& sharers) {
    if (threadIdx.x == 0) sharers.count = 0;
    __syncthreads();
    const int64_t row = begin + threadIdx.x;
    if (row < input.rows.count && input.rows.head_rows[row] == head) sharers.rows[atomicAdd(&sharers.count, 1u)] = row;
    __syncthreads();
}

// The logits of the block's tile for kRows of its rows. A hidden row out of range makes NaN, which the filter reports:
// such an id never passes for a result.
template <int kRows, class Weight, class Hidden>
__device__ void multiply_rows(const HeadsInput& input, const Tile& tile, const int64_t* rows) {
    const int64_t width = input.heads.width, vocabulary = input.heads.vocabulary;
    const int64_t word = tile.first_word + int64_t(warp_index()) * kWordsPerWarp;
    if (word >= vocabulary) return;
    const Weight* weights[kWordsPerWarp];
    for (int w = 0; w < kWordsPerWarp; ++w) {
        const int64_t own = word + w < vocabulary ? word + w : word;
        weights[w] = static_cast<const Weight*>(input.heads.weights) + (tile.head * vocabulary + own) * width;
    }
    const Hidden* hidden[kRows];
    bool exists[kRows];
    for (int r = 0; r < kRows; ++r) {
        const int64_t source = input.rows.hidden_rows[rows[r]];
        exists[r] = source >= 0 && source < input.rows.hidden_count;
        hidden[r] = static_cast<const Hidden*>(input.rows.hidden) + (exists[r] ? source * width : 0);
    }
    float sums[kRows][kWordsPerWarp];
    multiply(weights, hidden, int(width), sums);
    for (int r = 0; r < kRows; ++r)
        for (int w = 0; w < kWordsPerWarp; ++w)
            if (lane_index() == 0 && word + w < vocabulary)
                input.logits[rows[r] * vocabulary + word + w] = exists[r] ? sums[r][w] : float_of(0x7fc00000u);
}

// A head out of range likewise.
__device__ inline void fill_with_nan(const HeadsInput& input, const Tile& tile, const int64_t* rows, unsigned count) {
    const int64_t vocabulary = input.heads.vocabulary;
    for (unsigned r = 0; r < count; ++r)
        for (int64_t i = threadIdx.x; i < tile_words(blockDim.x) && tile.first_word + i < vocabulary; i += blockDim.x)
            input.logits[rows[r] * vocabulary + tile.first_word + i] = float_of(0x7fc00000u);
}

// Reports the block's tile of `rows` as done, and finishes those of which it was the last.
__device__ inline void follow_up(const RowFollowUp& next, const float* logits, int vocabulary, uint32_t tiles,
                                 const int64_t* rows, unsigned count, bool* complete, uint32_t* distances,
                                 SelectScratch& scratch) {
    __syncthreads();  // the block's logits are written
    if (threadIdx.x < count) {
        const int64_t row = rows[threadIdx.x];
        __threadfence();  // and seen by whoever sees this arrival
        complete[threadIdx.x] = atomicAdd(&next.arrivals[row], 1u) == tiles - 1;
        if (complete[threadIdx.x]) next.arrivals[row] = 0;
        __threadfence();
    }
    __syncthreads();
    for (unsigned r = 0; r < count; ++r) {
        if (!complete[r]) continue;
        const int64_t row = rows[r];
        const Noise noise = next.output.codes ? noise_of(next.noise, row) : Noise{};
        finish_row(FreshLogits{logits + row * vocabulary}, row, vocabulary, filter_of(next.filters, row), noise,
                   next.output, distances, scratch);
    }
}

// One block per (row, tile). Only the first row of those that share a head works, for all of them.
template <class Weight, class Hidden>
__global__ void __launch_bounds__(kMaxBlockThreads, kHeadBlocksPerMultiprocessor)
grouped_heads_rows(HeadsInput input, uint32_t tiles, RowFollowUp next) {
    CPSPEC_SHARED(Sharers, sharers);
    CPSPEC_SHARED(SelectScratch, scratch);
    CPSPEC_DYNAMIC_SHARED(uint32_t, distances);
    const uint32_t tile_index = blockIdx.x % tiles;
    Tile tile{0, blockIdx.x / tiles, int64_t(tile_index) * tile_words(blockDim.x)};
    tile.head = input.rows.head_rows[tile.first_row];
    bool earlier = false;
    for (int64_t row = threadIdx.x; row < tile.first_row; row += blockDim.x)
        earlier |= input.rows.head_rows[row] == tile.head;
    if (__syncthreads_or(earlier)) return;
    const bool exists = tile.head >= 0 && tile.head < input.heads.count;

    for (int64_t begin = tile.first_row; begin < input.rows.count; begin += blockDim.x) {
        find_sharers(input, tile.head, begin, sharers);
        const unsigned groups = (sharers.count + kRowsAtOnce - 1) / kRowsAtOnce;
        for (unsigned step = 0; step < groups; ++step) {
            // Tiles take the groups in different orders, so that the rows are completed by different blocks.
            const unsigned first = (step + tile_index) % groups * kRowsAtOnce;
            const unsigned count = sharers.count - first < kRowsAtOnce ? sharers.count - first : kRowsAtOnce;
            const int64_t* rows = sharers.rows + first;
            if (!exists)
                fill_with_nan(input, tile, rows, count);
            else if (count == kRowsAtOnce)
                multiply_rows<kRowsAtOnce, Weight, Hidden>(input, tile, rows);
            else
                multiply_rows<1, Weight, Hidden>(input, tile, rows);
            if (next.output.probabilities)
                follow_up(next, input.logits, int(input.heads.vocabulary), tiles, rows, count, sharers.complete + first,
                          distances, scratch);
        }
        __syncthreads();
    }
}

}  // namespace cpspec
