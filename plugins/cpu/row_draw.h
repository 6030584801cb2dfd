// Categorical draws of one row as an exponential race, and what they draw from.
//
// Included by level.cpp only.
#pragma once

#include "level.h"
#include "../core/accept.h"
#include "select.h"

namespace cpspec {

static void survivor_words(const Survivors& survivors, Noise noise, uint32_t* words) {
    if (survivors.index) {
        for (int64_t i = 0; i < survivors.count; ++i) words[i] = token_word(noise, survivors.index[i]);
        return;
    }
    const int64_t quads = survivors.count / 4;
    for (int64_t quad = 0; quad < quads; ++quad) {
        const Words4 four = quad_words(noise, uint32_t(quad));
        words[4 * quad] = four.w0;
        words[4 * quad + 1] = four.w1;
        words[4 * quad + 2] = four.w2;
        words[4 * quad + 3] = four.w3;
    }
    for (int64_t i = 4 * quads; i < survivors.count; ++i) words[i] = token_word(noise, uint32_t(i));
}

// Fills scratch.logits with the scores of a race, -inf where a token has no mass, and returns the highest key.
static int32_t race_scores(const Survivors& survivors, Noise noise, const RowScratch& scratch) {
    uint32_t* words = scratch.words;
    float* scores = scratch.logits;
    survivor_words(survivors, noise, words);
    const float nothing = float_of(0xff800000u);
    int32_t highest = kKeyOfMinusInfinity;
    for (int64_t i = 0; i < survivors.count; ++i) {
        const float probability = survivors.probability[i];
        const float score = race_score(probability, words[i]) + 0.0f;  // -0 and +0 tie
        scores[i] = probability > 0.0f ? score : nothing;
        const int32_t key = rising_key(scores[i]);
        highest = key > highest ? key : highest;
    }
    return highest;
}

static int64_t token_of(const Survivors& survivors, int64_t i) {
    return survivors.index ? int64_t(survivors.index[i]) : i;
}

static int64_t race_row(const Survivors& survivors, Noise noise, const RowScratch& scratch) {
    const int32_t highest = race_scores(survivors, noise, scratch);
    if (highest == kKeyOfMinusInfinity) return -1;
    int64_t winner = 0;
    while (rising_key(scratch.logits[winner]) != highest) ++winner;
    return token_of(survivors, winner);
}

static int64_t best_row(const Survivors& survivors, Noise noise, const RowScratch& scratch, int64_t wanted,
                        int64_t* tokens, float* scores) {
    float* left = scratch.logits;
    int32_t highest = race_scores(survivors, noise, scratch);
    int64_t found = 0;
    for (; found < wanted && highest != kKeyOfMinusInfinity; ++found) {
        int64_t winner = 0;
        while (rising_key(left[winner]) != highest) ++winner;
        tokens[found] = token_of(survivors, winner);
        if (scores) scores[found] = left[winner];
        left[winner] = float_of(0xff800000u);
        highest = kKeyOfMinusInfinity;
        for (int64_t i = 0; i < survivors.count; ++i) {
            const int32_t key = rising_key(left[i]);
            highest = key > highest ? key : highest;
        }
    }
    return found;
}

static Survivors support_row(const float* probabilities, int64_t vocabulary, const RowScratch& scratch) {
    const int64_t count = collect_positive(probabilities, vocabulary, scratch.survivor_index);
    for (int64_t i = 0; i < count; ++i) scratch.weights[i] = probabilities[scratch.survivor_index[i]];
    return Survivors{scratch.survivor_index, scratch.weights, count};
}

static uint64_t residual_mass_row(float joint, const float* target, const float* draft, int64_t vocabulary) {
    uint64_t mass = 0;
    for (int64_t i = 0; i < vocabulary; ++i) mass += mass_of(residual_of(joint, target[i], draft[i]));
    return mass;
}

static Survivors residual_row(float joint, const float* target, const float* draft, int64_t vocabulary,
                              const RowScratch& scratch) {
    for (int64_t i = 0; i < vocabulary; ++i) scratch.logits[i] = residual_of(joint, target[i], draft[i]);
    return support_row(scratch.logits, vocabulary, scratch);
}

}  // namespace cpspec
