// What the acceptance rules decide of one sequence, by all threads of a block.
#pragma once

#include "../core/accept.h"
#include "copy.cuh"
#include "drafts.cuh"
#include "row.cuh"

namespace cpspec {

// What is verified in one call.
struct Round {
    const float* target;  // [sum(counts + 1), vocabulary]
    const float* draft;   // [sum(counts), vocabulary]; not read under CPSPEC_COUPLED
    int vocabulary;
    const uint64_t* seeds;
    const uint32_t* frames;
    cpspec_rule rule;
    const float* margins;     // [sum(counts + 1)] or null
    const float* tolerances;  // [A] or null
};

// One sequence of it.
struct Chain {
    const float* target;   // [count + 1, vocabulary]
    const float* draft;    // [count, vocabulary]
    const int64_t* codes;  // [count]
    const float* margins;  // [count + 1] or null
    int64_t count;
    int vocabulary;
    int64_t last;
    uint64_t seed;
    uint32_t frame;

    __device__ uint32_t depth(int64_t slot) const { return uint32_t(last + 1 + slot); }
    __device__ Noise target_noise(int64_t slot) const { return {seed, stream_word(kTargetNoise, depth(slot)), frame}; }
    __device__ Noise round_noise(Purpose purpose, int64_t slot) const {
        return {seed, round_stream_word(purpose, depth(slot), uint32_t(last)), frame};
    }
    __device__ float accept_uniform(int64_t slot) const {
        return uniform_of(scalar_word(round_noise(kAcceptUniform, slot)));
    }
};

__device__ inline Chain chain_of(const Round& round, const cpspec_drafts& drafts, int64_t a, int64_t begin,
                                 int64_t last) {
    const bool has_drafts = round.draft || round.rule == CPSPEC_COUPLED;
    return {round.target + (begin + a) * round.vocabulary,  // every earlier sequence has one row more than drafts
            round.draft ? round.draft + begin * round.vocabulary : nullptr,
            drafts.codes + begin,
            round.margins ? round.margins + begin + a : nullptr,
            has_drafts ? count_of(drafts, a) : 0,
            round.vocabulary,
            last,
            round.seeds[a],
            round.frames[a]};
}

struct Decision {
    int64_t accepted;
    int64_t code;  // or kWithoutMass, or kGuarded
};

// How many slots from the front stand: the first for which `stands` fails, or `count`.
template <class Stands>
__device__ int64_t leading(const Stands& stands, int64_t count, BlockScratch& scratch) {
    uint64_t nearest_end = 0;  // distance of the first failing slot from `count`
    for (int64_t slot = threadIdx.x; slot < count; slot += blockDim.x) {
        if (stands(slot)) continue;
        nearest_end = uint64_t(count - slot);
        break;
    }
    return count - int64_t(block_reduce(nearest_end, Largest(), scratch));
}

// A code out of range has no probability and never stands.
struct SurvivesRejection {
    Chain chain;
    __device__ bool operator()(int64_t slot) const {
        const int64_t code = chain.codes[slot];
        if (!in_range(code, chain.vocabulary)) return false;
        const int64_t at = slot * chain.vocabulary + code;
        return keeps_draft(chain.accept_uniform(slot), chain.target[at], chain.draft[at]);
    }
};

// How many drafts stand, and how much of p they leave for what follows (b; 1 under rejection).
struct Standing {
    int64_t count;
    float joint;
};

// Every slot is looked at: a later one may stand where an earlier one did not.
__device__ inline Standing standing_by_block(const Chain& chain, BlockScratch& scratch) {
    Standing standing{0, 1.0f};
    float joint = 1.0f;
    for (int64_t slot = 0; slot < chain.count; ++slot) {
        const int64_t code = chain.codes[slot], at = slot * chain.vocabulary + code;
        joint = in_range(code, chain.vocabulary) ? joint_after(joint, chain.target[at], chain.draft[at]) : 0.0f;
        float reach = joint;
        if (slot + 1 < chain.count) {
            const float* target = chain.target + (slot + 1) * chain.vocabulary;
            const float* draft = chain.draft + (slot + 1) * chain.vocabulary;
            uint64_t mass = 0;
            for (int i = int(threadIdx.x); i < chain.vocabulary; i += int(blockDim.x))
                mass += mass_of(residual_of(joint, target[i], draft[i]));
            reach = reach_of(joint, block_reduce(mass, Sum(), scratch));
        }
        if (stands_jointly(chain.accept_uniform(slot), reach)) standing = {slot + 1, joint};
    }
    return standing;
}

// p, or what a rejection leaves of it.
struct FinalLaw {
    const float* target;
    const float* draft;  // null: p itself
    float joint;
    __device__ float at(int i) const { return draft ? residual_of(joint, target[i], draft[i]) : target[i]; }
};

// The bonus, or what the residual draws.
__device__ inline int64_t following_code(const Chain& chain, const Standing& standing, BlockScratch& scratch) {
    const int vocabulary = chain.vocabulary;
    const int64_t at = standing.count * vocabulary;
    FinalLaw law{chain.target + at, nullptr, standing.joint};
    Noise noise = chain.target_noise(standing.count);
    if (standing.count < chain.count) {
        noise = chain.round_noise(kResidualNoise, standing.count);
        law.draft = chain.draft + at;
        bool has_mass = false;
        for (int i = int(threadIdx.x); i < vocabulary; i += int(blockDim.x)) has_mass |= law.at(i) > 0.0f;
        if (!__syncthreads_or(has_mass)) law.draft = nullptr;  // rounding can leave nothing
    }
    return winner_of(race(law, vocabulary, noise, scratch));
}

// The target's own draw from a row, or one of the codes that stand for none.
__device__ inline int64_t coupled_code(const float* target, int vocabulary, Noise noise, float tolerance,
                                       BlockScratch& scratch) {
    TopTwo top{0, 0};
    race_share(PlainLogits<float>{target}, vocabulary, noise, [&](uint64_t own) { top.add(own); });
    top = block_top_two(top, scratch);
    if (!top.best) return kWithoutMass;
    return is_guarded(top.gap(), tolerance) ? kGuarded : winner_of(top.best);
}

__device__ inline Decision decide_coupled(const Chain& chain, float tolerance, BlockScratch& scratch) {
    for (int64_t slot = 0;; ++slot) {
        const float* target = chain.target + slot * chain.vocabulary;
        const int64_t code = coupled_code(target, chain.vocabulary, chain.target_noise(slot), tolerance, scratch);
        if (code < 0 || slot == chain.count || chain.codes[slot] != code) return {slot, code};
    }
}

struct LeadsEnough {
    const float* margins;
    float tolerance;
    __device__ bool operator()(int64_t slot) const { return !margins || !is_guarded(margins[slot], tolerance); }
};

__device__ inline Decision decide(const Chain& chain, cpspec_rule rule, float tolerance, BlockScratch& scratch) {
    Decision decision;
    if (rule == CPSPEC_COUPLED) {
        decision = decide_coupled(chain, tolerance, scratch);
    } else {
        const Standing standing = rule == CPSPEC_BLOCK
                                      ? standing_by_block(chain, scratch)
                                      : Standing{leading(SurvivesRejection{chain}, chain.count, scratch), 1.0f};
        decision = {standing.count, following_code(chain, standing, scratch)};
    }
    if (!chain.margins || decision.code == kWithoutMass) return decision;
    const int64_t sure = leading(LeadsEnough{chain.margins, tolerance}, decision.accepted + 1, scratch);
    return sure <= decision.accepted ? Decision{sure, kGuarded} : decision;
}

}  // namespace cpspec
