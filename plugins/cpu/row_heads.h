// Grouped heads: a row of a head is read once and used for every row of the batch that shares the head.
//
// One row of weights at a time, for as many hidden rows as the registers take: a single ascending stream is what
// hardware prefetchers follow best (four rows of weights at once reach 60 % of it). One or two hidden rows keep pace
// with memory; from about four on the multiply-adds are what takes the time, and more rows save loads and conversions.
//
// Included by level.cpp only.
#pragma once

#include "lanes.h"
#include "level.h"

namespace cpspec {

// Hidden rows multiplied at once: their partial sums stay in registers, beside a piece of the weights.
#if defined(__AVX512F__)
constexpr int kMostRows = 8;  // 16 of 32 registers; further rows no longer fit the first cache
#elif defined(__AVX2__) || defined(__aarch64__)
constexpr int kMostRows = 3;  // 12 of 16, 24 of 32
#else
constexpr int kMostRows = 2;
#endif
constexpr int kSharers = 32;  // rows sharing a head that are served by one read of it

// The elements beyond the last 32 go to the lanes they belong to.
template <class Weight, class Hidden>
static float total_with_tail(float* lanes, const Weight* weights, const Hidden* hidden, int64_t whole, int64_t width) {
    for (int64_t i = whole; i < width; ++i) {
        lanes[i - whole] = fma_(widen(weights[i]), widen(hidden[i]), lanes[i - whole]);
    }
    return butterfly(lanes);
}

// Dot products of one row of a head with kRows hidden rows, each in the order of core/dot.h.
template <int kRows, class Weight, class Hidden>
static inline void dot_rows(const Weight* weights, const Hidden* const* hidden, int64_t width, float* const* out) {
    Part sums[kRows][kParts];
    for (int r = 0; r < kRows; ++r)
        for (int part = 0; part < kParts; ++part) sums[r][part] = zero_part();

    const int64_t whole = width - width % kLanes;
    for (int64_t i = 0; i < whole; i += kLanes) {
        for (int part = 0; part < kParts; ++part) {
            const int64_t at = i + part * kPartWidth;
            const Part w = load_part(weights + at);
            for (int r = 0; r < kRows; ++r) sums[r][part] = fma_part(w, load_part(hidden[r] + at), sums[r][part]);
        }
    }
    for (int r = 0; r < kRows; ++r) {
        if (whole == width) {
            *out[r] = total_of(sums[r]);
            continue;
        }
        float lanes[kLanes];  // a copy: passing `sums` itself would keep the loop's sums out of registers
        for (int part = 0; part < kParts; ++part) store_part(lanes + part * kPartWidth, sums[r][part]);
        *out[r] = total_with_tail(lanes, weights, hidden[r], whole, width);
    }
}

// The same for a number of rows up to kRows.
template <int kRows, class Weight, class Hidden>
static inline void dot_up_to(int64_t rows, const Weight* weights, const Hidden* const* hidden, int64_t width,
                             float* const* out) {
    if (rows == kRows) return dot_rows<kRows>(weights, hidden, width, out);
    if constexpr (kRows > 1) dot_up_to<kRows - 1>(rows, weights, hidden, width, out);
}

template <class Weight, class Hidden>
static void one_head(const Weight* weights, const Hidden* const* hidden, float* const* logits, int64_t sharers,
                     int64_t begin, int64_t end, int64_t width) {
    float* out[kSharers];
    for (int64_t v = begin; v < end; ++v) {
        const Weight* row = weights + v * width;
        for (int64_t r = 0; r < sharers; ++r) out[r] = logits[r] + v;
        for (int64_t r = 0, passes = (sharers + kMostRows - 1) / kMostRows; passes > 0; --passes) {
            const int64_t rows = (sharers - r + passes - 1) / passes;  // shared out evenly
            dot_up_to<kMostRows>(rows, row, hidden + r, width, out + r);
            r += rows;
        }
    }
}

template <class Weight, class Hidden>
static void typed_heads(const cpspec_heads& heads, const cpspec_head_rows& rows, int64_t begin, int64_t end,
                        float* logits) {
    const Weight* weights = static_cast<const Weight*>(heads.weights);
    const Hidden* states = static_cast<const Hidden*>(rows.hidden);
    for (int64_t head = 0; head < heads.count; ++head) {
        for (int64_t next = 0; next < rows.count;) {
            const Hidden* hidden[kSharers];
            float* out[kSharers];
            int64_t sharers = 0;
            for (; next < rows.count && sharers < kSharers; ++next) {
                if (rows.head_rows[next] != head) continue;
                hidden[sharers] = states + rows.hidden_rows[next] * heads.width;
                out[sharers++] = logits + next * heads.vocabulary;
            }
            const Weight* own = weights + head * heads.vocabulary * heads.width;
            one_head(own, hidden, out, sharers, begin, end, heads.width);
        }
    }
}

template <class Weight>
static void heads_of(const cpspec_heads& heads, const cpspec_head_rows& rows, int64_t begin, int64_t end,
                     float* logits) {
    switch (rows.dtype) {
        case CPSPEC_FLOAT32: return typed_heads<Weight, float>(heads, rows, begin, end, logits);
        case CPSPEC_FLOAT16: return typed_heads<Weight, Float16>(heads, rows, begin, end, logits);
        case CPSPEC_BFLOAT16: return typed_heads<Weight, BFloat16>(heads, rows, begin, end, logits);
    }
}

static void grouped_heads(const cpspec_heads& heads, const cpspec_head_rows& rows, int64_t begin, int64_t end,
                          float* logits) {
    switch (heads.dtype) {
        case CPSPEC_FLOAT32: return heads_of<float>(heads, rows, begin, end, logits);
        case CPSPEC_FLOAT16: return heads_of<Float16>(heads, rows, begin, end, logits);
        case CPSPEC_BFLOAT16: return heads_of<BFloat16>(heads, rows, begin, end, logits);
    }
}

}  // namespace cpspec
