// Thirty-two values at a time in the registers of one instruction set: the partial sums of a dot product, and
// comparisons as a bit mask. These are what compilers do not make of plain loops.
//
// Included by level.cpp only.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "../core/dot.h"

namespace cpspec {

#if defined(__AVX2__)
// The last three steps of the butterfly.
static inline float total_of_eight(__m256 a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
#endif

#if defined(__AVX512F__)

constexpr int kParts = 2;
using Part = __m512;
static inline Part zero_part() { return _mm512_setzero_ps(); }
static inline Part load_part(const float* p) { return _mm512_loadu_ps(p); }
static inline Part load_part(const Float16* p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }
static inline Part load_part(const BFloat16* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}
static inline Part fma_part(Part a, Part b, Part c) { return _mm512_fmadd_ps(a, b, c); }
static inline void store_part(float* p, Part a) { _mm512_storeu_ps(p, a); }
static inline float total_of(const Part* sums) {
    const __m512 sixteen = _mm512_add_ps(sums[0], sums[1]);
    return total_of_eight(_mm256_add_ps(_mm512_castps512_ps256(sixteen), _mm512_extractf32x8_ps(sixteen, 1)));
}
static inline uint32_t mask_less(const void* words, int32_t limit) {
    const __m512i limits = _mm512_set1_epi32(limit);
    const __mmask16 low = _mm512_cmplt_epi32_mask(_mm512_loadu_si512(words), limits);
    const __mmask16 high = _mm512_cmplt_epi32_mask(_mm512_loadu_si512((const __m512i*)words + 1), limits);
    return uint32_t(low) | uint32_t(high) << 16;
}

#elif defined(__AVX2__)

constexpr int kParts = 4;
using Part = __m256;
static inline Part zero_part() { return _mm256_setzero_ps(); }
static inline Part load_part(const float* p) { return _mm256_loadu_ps(p); }
static inline Part load_part(const Float16* p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)); }
static inline Part load_part(const BFloat16* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16));
}
static inline Part fma_part(Part a, Part b, Part c) { return _mm256_fmadd_ps(a, b, c); }
static inline void store_part(float* p, Part a) { _mm256_storeu_ps(p, a); }
static inline float total_of(const Part* sums) {
    return total_of_eight(_mm256_add_ps(_mm256_add_ps(sums[0], sums[2]), _mm256_add_ps(sums[1], sums[3])));
}
static inline uint32_t mask_less(const void* words, int32_t limit) {
    const __m256i limits = _mm256_set1_epi32(limit);
    uint32_t mask = 0;
    for (int part = 0; part < 4; ++part) {
        const __m256i less = _mm256_cmpgt_epi32(limits, _mm256_loadu_si256((const __m256i*)words + part));
        mask |= uint32_t(_mm256_movemask_ps(_mm256_castsi256_ps(less))) << (8 * part);
    }
    return mask;
}

#elif defined(__aarch64__)

constexpr int kParts = 8;
using Part = float32x4_t;
static inline Part zero_part() { return vdupq_n_f32(0.0f); }
static inline Part load_part(const float* p) { return vld1q_f32(p); }
static inline Part load_part(const Float16* p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t*)p)));
}
static inline Part load_part(const BFloat16* p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t*)p), 16));
}
static inline Part fma_part(Part a, Part b, Part c) { return vfmaq_f32(c, a, b); }
static inline void store_part(float* p, Part a) { vst1q_f32(p, a); }

#else  // no fused multiply-add instruction: core/fma.h computes it, four at a time so that the compiler can vectorise

struct Part {
    float value[4];
};
constexpr int kParts = 8;
static inline Part zero_part() { return Part{{0.0f, 0.0f, 0.0f, 0.0f}}; }
template <class Element>
static inline Part load_part(const Element* p) {
    Part a;
    for (int i = 0; i < 4; ++i) a.value[i] = widen(p[i]);
    return a;
}
static inline Part fma_part(Part a, Part b, Part c) {
    for (int i = 0; i < 4; ++i) c.value[i] = fma_(a.value[i], b.value[i], c.value[i]);
    return c;
}
static inline void store_part(float* p, Part a) {
    for (int i = 0; i < 4; ++i) p[i] = a.value[i];
}

#endif

#if !defined(__AVX2__)
static inline uint32_t mask_less(const void* words, int32_t limit) {
    int32_t values[32];
    __builtin_memcpy(values, words, sizeof values);
    uint32_t mask = 0;
    for (int i = 0; i < 32; ++i) mask |= uint32_t(values[i] < limit) << i;
    return mask;
}
#endif

constexpr int kPartWidth = kLanes / kParts;

#if !defined(__AVX2__)
static inline float total_of(const Part* sums) {
    float lanes[kLanes];
    for (int part = 0; part < kParts; ++part) store_part(lanes + part * kPartWidth, sums[part]);
    return butterfly(lanes);
}
#endif

}  // namespace cpspec
