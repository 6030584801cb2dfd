// One row of logits to what survives temperature, top-k and top-p (the arithmetic is core/filter.h).
//
// Included by level.cpp only.
#pragma once

#include "level.h"
#include "select.h"

namespace cpspec {

struct KeyRange {
    int32_t lowest, highest;
};

static uint32_t largest_distance(KeyRange range) {
    return distance_key(value_of_key(range.lowest) - value_of_key(range.highest));
}

// Distances below the maximum; the range of keys before says whether the row is sound.
static KeyRange distances(const float* logits, int64_t n, float divisor, float* scaled, uint32_t* keys) {
    KeyRange range{INT32_MAX, INT32_MIN};
    for (int64_t i = 0; i < n; ++i) {
        scaled[i] = logits[i] / divisor;
        const int32_t key = rising_key(scaled[i]);
        range.lowest = key < range.lowest ? key : range.lowest;
        range.highest = key > range.highest ? key : range.highest;
    }
    const float highest = value_of_key(range.highest);
    for (int64_t i = 0; i < n; ++i) keys[i] = distance_key(scaled[i] - highest);
    return range;
}

// Weights and their total mass.
static uint64_t weigh(const uint32_t* keys, int64_t n, float* weights, uint64_t* mass) {
    for (int64_t i = 0; i < n; ++i) weights[i] = exp_(shifted_of_distance(keys[i]));
    uint64_t total = 0;
    for (int64_t i = 0; i < n; ++i) {
        mass[i] = mass_of(weights[i]);
        total += mass[i];
    }
    return total;
}

static void normalise(const uint32_t* keys, int64_t n, Cut cut, uint64_t kept, float* weights) {
    const float sum = weight_of_mass(kept);
    int64_t tied = 0;
    for (int64_t i = 0; i < n; ++i) {
        weights[i] = keys[i] <= cut.border ? weights[i] / sum : 0.0f;
        tied += keys[i] == cut.border ? 1 : 0;
    }
    for (int64_t i = n - 1; tied > cut.ties; --i) {
        if (keys[i] != cut.border) continue;
        weights[i] = 0.0f;
        --tied;
    }
}

static int32_t filter_row(const float* logits, int64_t vocabulary, FilterRow row, const RowScratch& scratch,
                          Survivors* survivors) {
    const KeyRange range =
        distances(logits, vocabulary, divisor_of(row.temperature), scratch.logits, scratch.keys);
    if (const int32_t error = row_error(range.lowest, range.highest)) return error;

    const uint32_t largest = largest_distance(range);
    const int64_t kept = kept_by_top_k(row.top_k, row.temperature, vocabulary);
    const uint32_t* keys = scratch.keys;
    *survivors = Survivors{nullptr, scratch.weights, vocabulary};
    if (kept < vocabulary) {
        const Cut cut = kept == 1 ? Cut{0, 1} : select_count(keys, vocabulary, kept, largest);
        survivors->count = collect(keys, vocabulary, cut, scratch.survivor_index);
        survivors->index = scratch.survivor_index;
        for (int64_t i = 0; i < survivors->count; ++i) scratch.survivor_keys[i] = keys[scratch.survivor_index[i]];
        keys = scratch.survivor_keys;
    }
    const int64_t n = survivors->count;
    const uint64_t total = weigh(keys, n, scratch.weights, scratch.mass);
    MassCut mass_cut{Cut{UINT32_MAX, 0}, total};
    if (cuts_mass(row.top_p, row.temperature)) {
        mass_cut = select_mass(keys, scratch.mass, n, needed_mass(row.top_p, total), largest);
    }
    normalise(keys, n, mass_cut.cut, mass_cut.kept, scratch.weights);
    return CPSPEC_ROW_SOUND;
}

static void spread_row(const Survivors& survivors, int64_t vocabulary, float* probabilities) {
    if (!survivors.index) {
        __builtin_memcpy(probabilities, survivors.probability, size_t(vocabulary) * sizeof(float));
        return;
    }
    __builtin_memset(probabilities, 0, size_t(vocabulary) * sizeof(float));
    for (int64_t i = 0; i < survivors.count; ++i) probabilities[survivors.index[i]] = survivors.probability[i];
}

static void process_row(float* logits, int64_t vocabulary, const TalkerRow& row) {
    for (int64_t i = 0; i < vocabulary; ++i) {
        logits[i] = processed(logits[i], row.seen[i] != 0, row.penalty, row.suppressed[i] != 0);
    }
    if (row.banned >= 0) logits[row.banned] = float_of(0xff800000u);
}

}  // namespace cpspec
