// What several operations do with one row.
#pragma once

#include "scratch.h"

namespace cpspec {

inline FilterRow filter_of(const cpspec_filter_rows* filters, int64_t r) {
    return FilterRow{filters->temperature[r], filters->top_k[r], filters->top_p[r]};
}

inline Noise noise_of(const cpspec_noise_rows* noise, int64_t r) {
    return Noise{noise->seeds[r], noise->streams[r], noise->frames[r]};
}

// A row of logits as float32: in place where it is, else widened into the scratch.
inline const float* float_row(const void* logits, cpspec_dtype dtype, int64_t r, int64_t vocabulary,
                              const RowScratch& scratch) {
    if (dtype == CPSPEC_FLOAT32) return static_cast<const float*>(logits) + r * vocabulary;
    level().widen(logits, dtype, r * vocabulary, vocabulary, scratch.logits);
    return scratch.logits;
}

// Filters into a dense row, zeros where the row is faulty, or only into `survivors` where `probabilities` is NULL.
// Returns a cpspec_row_error.
inline int32_t filter_dense(const float* logits, int64_t vocabulary, FilterRow row, const RowScratch& scratch,
                            float* probabilities, Survivors* survivors) {
    *survivors = Survivors{scratch.survivor_index, scratch.weights, 0};
    const int32_t error = level().filter(logits, vocabulary, row, scratch, survivors);
    if (probabilities) level().spread(*survivors, vocabulary, probabilities);
    return error;
}

// The same, then the draw; -1 where the row is faulty.
inline int32_t filter_and_draw(const float* logits, int64_t vocabulary, FilterRow row, Noise noise,
                               const RowScratch& scratch, float* probabilities, int64_t* code) {
    Survivors survivors;
    const int32_t error = filter_dense(logits, vocabulary, row, scratch, probabilities, &survivors);
    *code = level().race(survivors, noise, scratch);
    return error;
}

}  // namespace cpspec
