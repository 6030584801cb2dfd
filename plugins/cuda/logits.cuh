// Kernels over independent rows of logits or probabilities: one block per row.
#pragma once

#include "row.cuh"

namespace cpspec {

// A call has few rows. Promising the compiler only this much leaves 80 registers a thread, and nothing spills.
constexpr unsigned kRowBlocksPerMultiprocessor = 3;

template <class Element>
__global__ void __launch_bounds__(kMaxBlockThreads, kRowBlocksPerMultiprocessor)
filter_rows(const Element* logits, int vocabulary, cpspec_filter_rows filters, RowOutput output) {
    CPSPEC_SHARED(SelectScratch, scratch);
    CPSPEC_DYNAMIC_SHARED(uint32_t, distances);
    const int64_t row = blockIdx.x;
    finish_row(PlainLogits<Element>{logits + row * vocabulary}, row, vocabulary, filter_of(filters, row), Noise{},
               output, distances, scratch);
}

// The Talker's inputs beside the logits.
struct TalkerRows {
    const uint8_t* seen;
    const float* penalty;
    const uint8_t* suppressed;
    int64_t eos;
    const uint8_t* ban_eos;
    const uint64_t* seeds;
    const uint32_t* frames;
};

template <class Element>
__global__ void __launch_bounds__(kMaxBlockThreads, kRowBlocksPerMultiprocessor)
draw_talker_rows(const Element* logits, int vocabulary, TalkerRows talker, cpspec_filter_rows filters,
                 RowOutput output) {
    CPSPEC_SHARED(SelectScratch, scratch);
    CPSPEC_DYNAMIC_SHARED(uint32_t, distances);
    const int64_t row = blockIdx.x;
    const TalkerLogits<Element> processed{logits + row * vocabulary, talker.seen + row * vocabulary,
                                          talker.suppressed, talker.penalty[row],
                                          talker.ban_eos[row] ? talker.eos : -1};
    const Noise noise{talker.seeds[row], stream_word(kTalkerNoise, 0), talker.frames[row]};
    finish_row(processed, row, vocabulary, filter_of(filters, row), noise, output, distances, scratch);
}

template <class Element>
__global__ void __launch_bounds__(kMaxBlockThreads)
argmax_rows(const Element* logits, int64_t vocabulary, int64_t* codes, int32_t* errors, float* margins) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const Element* row = logits + int64_t(blockIdx.x) * vocabulary;
    uint64_t extremes = 0;
    TopTwo top{0, 0};
    for (int64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) {
        const float logit = widen(row[i]);
        extremes = LargestHalves()(extremes, extremes_of(rising_key(logit)));
        top.add(contender(logit, uint32_t(i)));
    }
    extremes = block_reduce(extremes, LargestHalves(), scratch);
    top = block_top_two(top, scratch);
    if (threadIdx.x != 0) return;
    const int32_t error = row_error(lowest_of(extremes), highest_of(extremes));
    codes[blockIdx.x] = error ? -1 : winner_of(top.best);
    errors[blockIdx.x] = error;
    if (margins) margins[blockIdx.x] = error ? 0.0f : top.gap();
}

__global__ void __launch_bounds__(kMaxBlockThreads)
draw_rows(const float* probabilities, int vocabulary, cpspec_noise_rows noise, int64_t* codes) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t row = blockIdx.x;
    const uint64_t best = race(PlainLogits<float>{probabilities + row * vocabulary}, vocabulary,
                               noise_of(noise, row), scratch);
    if (threadIdx.x == 0) codes[row] = winner_of(best);
}

}  // namespace cpspec
