#include "decide.h"

namespace cpspec {
namespace {

uint32_t depth_of(const Chain& chain, int64_t offset) { return uint32_t(chain.last + 1 + offset); }

Noise round_noise(const Chain& chain, Purpose purpose, int64_t offset) {
    return {chain.seed, round_stream_word(purpose, depth_of(chain, offset), uint32_t(chain.last)), chain.frame};
}

float accept_uniform(const Chain& chain, int64_t offset) {
    return uniform_of(scalar_word(round_noise(chain, kAcceptUniform, offset)));
}

// How many drafts stand, and how much of p they leave for what follows (b; 1 under rejection).
struct Standing {
    int64_t count;
    float joint;
};

Standing standing_by_rejection(const Chain& chain) {
    for (int64_t t = 0; t < chain.count; ++t) {
        const int64_t at = t * chain.vocabulary + chain.codes[t];
        if (!keeps_draft(accept_uniform(chain, t), chain.target[at], chain.draft[at])) return {t, 1.0f};
    }
    return {chain.count, 1.0f};
}

// Every slot is looked at: a later one may stand where an earlier one did not.
Standing standing_by_block(const Chain& chain) {
    Standing standing{0, 1.0f};
    float joint = 1.0f;
    for (int64_t t = 0; t < chain.count; ++t) {
        const int64_t at = t * chain.vocabulary + chain.codes[t];
        joint = joint_after(joint, chain.target[at], chain.draft[at]);
        float reach = joint;
        if (t + 1 < chain.count) {
            const int64_t next = (t + 1) * chain.vocabulary;
            const uint64_t mass =
                level().residual_mass(joint, chain.target + next, chain.draft + next, chain.vocabulary);
            reach = reach_of(joint, mass);
        }
        if (stands_jointly(accept_uniform(chain, t), reach)) standing = {t + 1, joint};
    }
    return standing;
}

// The bonus, or what the residual draws.
int64_t following_code(const Chain& chain, Standing standing, const RowScratch& scratch) {
    const float* target = chain.target + standing.count * chain.vocabulary;
    if (standing.count == chain.count) {
        const Noise noise = target_noise(chain.seed, chain.frame, chain.last, standing.count);
        return level().race(level().support(target, chain.vocabulary, scratch), noise, scratch);
    }
    const float* draft = chain.draft + standing.count * chain.vocabulary;
    Survivors from = level().residual(standing.joint, target, draft, chain.vocabulary, scratch);
    // Rounding can leave a residual without mass.
    if (from.count == 0) from = level().support(target, chain.vocabulary, scratch);
    return level().race(from, round_noise(chain, kResidualNoise, standing.count), scratch);
}

Outcome decide_coupled(const Chain& chain, float tolerance, const RowScratch& scratch) {
    for (int64_t t = 0;; ++t) {
        const Noise noise = target_noise(chain.seed, chain.frame, chain.last, t);
        const int64_t code =
            coupled_code(chain.target + t * chain.vocabulary, chain.vocabulary, noise, tolerance, scratch);
        if (code < 0 || t == chain.count || chain.codes[t] != code) return {t, code};
    }
}

}  // namespace

Noise target_noise(uint64_t seed, uint32_t frame, int64_t last, int64_t offset) {
    return {seed, stream_word(kTargetNoise, uint32_t(last + 1 + offset)), frame};
}

int64_t coupled_code(const float* target, int64_t vocabulary, Noise noise, float tolerance,
                     const RowScratch& scratch) {
    int64_t tokens[2];
    float scores[2];
    const Survivors support = level().support(target, vocabulary, scratch);
    const int64_t found = level().best(support, noise, scratch, 2, tokens, scores);
    if (found == 0) return kWithoutMass;
    return found == 2 && is_guarded(scores[0] - scores[1], tolerance) ? kGuarded : tokens[0];
}

Outcome decide(const Chain& chain, cpspec_rule rule, float tolerance, const RowScratch& scratch) {
    Outcome outcome;
    if (rule == CPSPEC_COUPLED) {
        outcome = decide_coupled(chain, tolerance, scratch);
    } else {
        const Standing standing = rule == CPSPEC_BLOCK ? standing_by_block(chain) : standing_by_rejection(chain);
        outcome = {standing.count, following_code(chain, standing, scratch)};
    }
    if (!chain.margins || outcome.code == kWithoutMass) return outcome;
    for (int64_t t = 0; t <= outcome.accepted; ++t) {
        if (is_guarded(chain.margins[t], tolerance)) return {t, kGuarded};
    }
    return outcome;
}

}  // namespace cpspec
