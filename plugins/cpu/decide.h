// What the acceptance rules decide of one sequence.
#pragma once

#include "../core/accept.h"
#include "scratch.h"

namespace cpspec {

// One sequence of a round.
struct Chain {
    const float* target;   // [count + 1, V]
    const float* draft;    // [count, V]; not read under CPSPEC_COUPLED
    const int64_t* codes;  // [count]
    const float* margins;  // [count + 1], NULL where only the rule itself guards
    int64_t count;
    int64_t vocabulary;
    int64_t last;
    uint64_t seed;
    uint32_t frame;
};

struct Outcome {
    int64_t accepted;
    int64_t code;  // kWithoutMass where nothing can be drawn, kGuarded where the row decides nothing
};

// Where a sequence's rules begin: its target noise is that of the depth, the rest is the round's own.
Noise target_noise(uint64_t seed, uint32_t frame, int64_t last, int64_t offset);

// The target's own draw from a row, or one of the codes that stand for none.
int64_t coupled_code(const float* target, int64_t vocabulary, Noise noise, float tolerance, const RowScratch& scratch);

Outcome decide(const Chain& chain, cpspec_rule rule, float tolerance, const RowScratch& scratch);

}  // namespace cpspec
