// The hot loops, compiled once per instruction set from level.cpp. Every level gives the same bits.
#pragma once

#include "cpspec/kernels.h"
#include "../core/philox.h"

namespace cpspec {

// Working memory of one row; the caller provides it so that nothing is allocated.
struct RowScratch {
    float* logits;             // [V], also the scores of a race
    uint32_t* keys;            // [V], distance keys
    uint32_t* survivor_keys;   // [V]
    uint32_t* words;           // [V], the same memory: a race begins when the filter is done
    uint32_t* survivor_index;  // [V]
    float* weights;            // [V], then probabilities
    uint64_t* mass;            // [V]
};

struct FilterRow {
    float temperature;
    int32_t top_k;
    float top_p;
};

// What a filter left of a row: `count` tokens in order of their index, some of which may have probability 0.
struct Survivors {
    const uint32_t* index;  // NULL: all tokens
    const float* probability;
    int64_t count;
};

struct TalkerRow {
    const uint8_t* seen;
    const uint8_t* suppressed;
    float penalty;
    int64_t banned;  // a token, or -1
};

struct Level {
    const char* name;

    // Copies a row of logits as float32.
    void (*widen)(const void* logits, cpspec_dtype dtype, int64_t begin, int64_t count, float* out);

    // Applies the Talker's processors to a row in place.
    void (*process)(float* logits, int64_t vocabulary, const TalkerRow& row);

    // Writes what survives into `scratch`; returns a cpspec_row_error, and leaves `survivors` alone where the row is
    // faulty. `logits` may be scratch.logits.
    int32_t (*filter)(const float* logits, int64_t vocabulary, FilterRow row, const RowScratch& scratch,
                      Survivors* survivors);

    // A dense row of probabilities.
    void (*spread)(const Survivors& survivors, int64_t vocabulary, float* probabilities);

    // The winner of the race, -1 where no token has mass. Overwrites scratch.logits and scratch.words.
    int64_t (*race)(const Survivors& survivors, Noise noise, const RowScratch& scratch);

    // The first of the race, best first; returns how many there are, up to `wanted`. `scores` may be NULL. Overwrites
    // what race does.
    int64_t (*best)(const Survivors& survivors, Noise noise, const RowScratch& scratch, int64_t wanted, int64_t* tokens,
                    float* scores);

    // The tokens of a dense row that have mass, in scratch.survivor_index and scratch.weights.
    Survivors (*support)(const float* probabilities, int64_t vocabulary, const RowScratch& scratch);

    // The tokens with b p > q likewise, with b p - q as their weight.
    Survivors (*residual)(float joint, const float* target, const float* draft, int64_t vocabulary,
                          const RowScratch& scratch);

    // The mass of b p - q where it is positive, as the filter counts mass.
    uint64_t (*residual_mass)(float joint, const float* target, const float* draft, int64_t vocabulary);

    // The lowest index of a row's maximum, -1 where it is faulty; returns a cpspec_row_error. `margin`, where it is
    // given, becomes the gap to the second best.
    int32_t (*argmax)(const void* logits, cpspec_dtype dtype, int64_t begin, int64_t vocabulary, int64_t* code,
                      float* margin);

    // cpspec_grouped_heads for the vocabulary rows [begin, end) of every head; arguments are checked.
    void (*heads)(const cpspec_heads& heads, const cpspec_head_rows& rows, int64_t begin, int64_t end, float* logits);

    void (*philox)(const uint32_t* counters, const uint32_t* keys, int64_t n, uint32_t* out);
    void (*noise)(const uint32_t* words, int64_t n, float* uniforms, float* gumbels);
    void (*evaluate)(cpspec_function function, const float* x, int64_t n, float* y);
};

// The level in use: the best one this machine has, unless another was chosen.
const Level& level();

}  // namespace cpspec
