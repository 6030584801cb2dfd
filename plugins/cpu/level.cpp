// Compiled once per instruction set; CPSPEC_LEVEL is its name (CMakeLists.txt sets it with the compiler's flags).
//
// Every function here is static. One with external linkage, be it inline, a member or of the C++ library, would exist
// once per level, and the linker might keep the copy that this machine cannot run.
#include "level.h"
#include "row_draw.h"
#include "row_filter.h"
#include "row_heads.h"

#define CPSPEC_TEXT_(x) #x
#define CPSPEC_TEXT(x) CPSPEC_TEXT_(x)
#define CPSPEC_JOIN_(a, b) a##b
#define CPSPEC_JOIN(a, b) CPSPEC_JOIN_(a, b)

namespace cpspec {
namespace {

template <class Element>
void widen_typed(const void* logits, int64_t begin, int64_t count, float* out) {
    const Element* row = static_cast<const Element*>(logits) + begin;
    for (int64_t i = 0; i < count; ++i) out[i] = widen(row[i]);
}

void widen_row(const void* logits, cpspec_dtype dtype, int64_t begin, int64_t count, float* out) {
    switch (dtype) {
        case CPSPEC_FLOAT32: return widen_typed<float>(logits, begin, count, out);
        case CPSPEC_FLOAT16: return widen_typed<Float16>(logits, begin, count, out);
        case CPSPEC_BFLOAT16: return widen_typed<BFloat16>(logits, begin, count, out);
    }
}

template <class Element>
int32_t argmax_typed(const void* logits, int64_t begin, int64_t vocabulary, int64_t* code, float* margin) {
    const Element* row = static_cast<const Element*>(logits) + begin;
    const auto key_of = [row](int64_t i) { return rising_key(widen(row[i]) + 0.0f); };  // -0 and +0 tie
    KeyRange range{INT32_MAX, INT32_MIN};
    for (int64_t i = 0; i < vocabulary; ++i) {
        const int32_t key = key_of(i);
        range.lowest = key < range.lowest ? key : range.lowest;
        range.highest = key > range.highest ? key : range.highest;
    }
    *code = -1;
    if (margin) *margin = 0.0f;
    const int32_t error = row_error(range.lowest, range.highest);
    if (error) return error;
    int64_t i = 0;
    while (key_of(i) != range.highest) ++i;
    *code = i;
    if (!margin) return error;
    int32_t second = kKeyOfMinusInfinity;
    for (int64_t other = 0; other < vocabulary; ++other) {
        const int32_t key = key_of(other);
        second = other != i && key > second ? key : second;
    }
    *margin = value_of_key(range.highest) - value_of_key(second);
    return error;
}

int32_t argmax_row(const void* logits, cpspec_dtype dtype, int64_t begin, int64_t vocabulary, int64_t* code,
                   float* margin) {
    switch (dtype) {
        case CPSPEC_FLOAT16: return argmax_typed<Float16>(logits, begin, vocabulary, code, margin);
        case CPSPEC_BFLOAT16: return argmax_typed<BFloat16>(logits, begin, vocabulary, code, margin);
        default: return argmax_typed<float>(logits, begin, vocabulary, code, margin);
    }
}

void philox_rows(const uint32_t* counters, const uint32_t* keys, int64_t n, uint32_t* out) {
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t* c = counters + 4 * i;
        const Words4 words = philox4x32(Words4{c[0], c[1], c[2], c[3]}, keys[2 * i], keys[2 * i + 1]);
        out[4 * i] = words.w0;
        out[4 * i + 1] = words.w1;
        out[4 * i + 2] = words.w2;
        out[4 * i + 3] = words.w3;
    }
}

void noise_rows(const uint32_t* words, int64_t n, float* uniforms, float* gumbels) {
    for (int64_t i = 0; i < n; ++i) {
        uniforms[i] = uniform_of(words[i]);
        gumbels[i] = gumbel_of(words[i]);
    }
}

void evaluate_rows(cpspec_function function, const float* x, int64_t n, float* y) {
    switch (function) {
        case CPSPEC_EXP:
            for (int64_t i = 0; i < n; ++i) y[i] = exp_(x[i]);
            return;
        case CPSPEC_LOG:
            for (int64_t i = 0; i < n; ++i) y[i] = log_(x[i]);
            return;
        case CPSPEC_LOG1P:
            for (int64_t i = 0; i < n; ++i) y[i] = log1p_(x[i]);
            return;
    }
}

}  // namespace

extern const Level CPSPEC_JOIN(level_, CPSPEC_LEVEL);
const Level CPSPEC_JOIN(level_, CPSPEC_LEVEL) = {
    CPSPEC_TEXT(CPSPEC_LEVEL),
    widen_row,
    process_row,
    filter_row,
    spread_row,
    race_row,
    best_row,
    support_row,
    residual_row,
    residual_mass_row,
    argmax_row,
    grouped_heads,
    philox_rows,
    noise_rows,
    evaluate_rows,
};

}  // namespace cpspec
