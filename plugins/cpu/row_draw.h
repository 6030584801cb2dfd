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

static int64_t race_row(const Survivors& survivors, Noise noise, const RowScratch& scratch) {
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
    if (highest == kKeyOfMinusInfinity) return -1;
    int64_t winner = 0;
    while (rising_key(scores[winner]) != highest) ++winner;
    return survivors.index ? int64_t(survivors.index[winner]) : winner;
}

static Survivors support_row(const float* probabilities, int64_t vocabulary, const RowScratch& scratch) {
    const int64_t count = collect_positive(probabilities, vocabulary, scratch.survivor_index);
    for (int64_t i = 0; i < count; ++i) scratch.weights[i] = probabilities[scratch.survivor_index[i]];
    return Survivors{scratch.survivor_index, scratch.weights, count};
}

static Survivors residual_row(const float* target, const float* draft, int64_t vocabulary, const RowScratch& scratch) {
    for (int64_t i = 0; i < vocabulary; ++i) scratch.logits[i] = residual_of(target[i], draft[i]);
    return support_row(scratch.logits, vocabulary, scratch);
}

}  // namespace cpspec
