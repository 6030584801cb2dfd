// Grouped heads: a row of a head is read once and used for every row of the batch that shares the head.
//
// One row of weights at a time: its 32 partial sums already fill the multiply-add units at the speed of memory, and
// a single ascending stream is what hardware prefetchers follow best (four rows at once reach 60 % of it).
//
// Included by level.cpp only.
#pragma once

#include "lanes.h"
#include "level.h"

namespace cpspec {

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kHiddenBlock = 4;  // hidden rows multiplied at once: their partial sums fit 32 vector registers
#else
constexpr int kHiddenBlock = 2;
#endif
constexpr int kSharers = 32;     // rows sharing a head that are served by one read of it

// The elements beyond the last 32 go to the lanes they belong to.
template <class Weight, class Hidden>
static float total_with_tail(float* lanes, const Weight* weights, const Hidden* hidden, int64_t whole, int64_t width) {
    for (int64_t i = whole; i < width; ++i) {
        lanes[i - whole] = fma_(widen(weights[i]), widen(hidden[i]), lanes[i - whole]);
    }
    return butterfly(lanes);
}

// Dot products of one row of a head with kBlock hidden rows, each in the order of core/dot.h.
template <int kBlock, class Weight, class Hidden>
static inline void dot_block(const Weight* weights, const Hidden* const* hidden, int64_t width, float* const* out) {
    Part sums[kBlock][kParts];
    for (int r = 0; r < kBlock; ++r)
        for (int part = 0; part < kParts; ++part) sums[r][part] = zero_part();

    const int64_t whole = width - width % kLanes;
    for (int64_t i = 0; i < whole; i += kLanes) {
        for (int part = 0; part < kParts; ++part) {
            const int64_t at = i + part * kPartWidth;
            const Part w = load_part(weights + at);
            for (int r = 0; r < kBlock; ++r) sums[r][part] = fma_part(w, load_part(hidden[r] + at), sums[r][part]);
        }
    }
    for (int r = 0; r < kBlock; ++r) {
        if (whole == width) {
            *out[r] = total_of(sums[r]);
            continue;
        }
        float lanes[kLanes];  // a copy: passing `sums` itself would keep the loop's sums out of registers
        for (int part = 0; part < kParts; ++part) store_part(lanes + part * kPartWidth, sums[r][part]);
        *out[r] = total_with_tail(lanes, weights, hidden[r], whole, width);
    }
}

template <class Weight, class Hidden>
static void one_head(const Weight* weights, const Hidden* const* hidden, float* const* logits, int64_t sharers,
                     int64_t begin, int64_t end, int64_t width) {
    float* out[kSharers];
    for (int64_t v = begin; v < end; ++v) {
        const Weight* row = weights + v * width;
        for (int64_t r = 0; r < sharers; ++r) out[r] = logits[r] + v;
        int64_t r = 0;
        for (; r + kHiddenBlock <= sharers; r += kHiddenBlock) {
            dot_block<kHiddenBlock>(row, hidden + r, width, out + r);
        }
        for (; r + 2 <= sharers; r += 2) dot_block<2>(row, hidden + r, width, out + r);
        if (r < sharers) dot_block<1>(row, hidden + r, width, out + r);
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
