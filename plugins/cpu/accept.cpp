// Acceptance: how many drafts stand, which code follows them, and their commit.
#include <cstring>

#include "../core/accept.h"
#include "arguments.h"
#include "sizes.h"
#include "steps.h"

using namespace cpspec;

namespace {

// One sequence of a round.
struct Chain {
    const float* target;   // [count + 1, V]
    const float* draft;    // [count, V]
    const int64_t* codes;  // [count]
    int64_t count;
    int64_t vocabulary;
    int64_t last;
    uint64_t seed;
    uint32_t frame;
};

struct Outcome {
    int64_t accepted;
    int64_t code;  // -1 where nothing can be drawn
};

uint32_t depth_of(const Chain& chain, int64_t offset) { return uint32_t(chain.last + 1 + offset); }

int64_t leading_kept(const Chain& chain) {
    for (int64_t t = 0; t < chain.count; ++t) {
        const uint32_t stream = round_stream_word(kAcceptUniform, depth_of(chain, t), uint32_t(chain.last));
        const float uniform = uniform_of(scalar_word(Noise{chain.seed, stream, chain.frame}));
        const int64_t at = t * chain.vocabulary + chain.codes[t];
        if (!keeps_draft(uniform, chain.target[at], chain.draft[at])) return t;
    }
    return chain.count;
}

Outcome decide(const Chain& chain, const RowScratch& scratch) {
    const int64_t accepted = leading_kept(chain);
    const uint32_t depth = depth_of(chain, accepted);
    const float* target = chain.target + accepted * chain.vocabulary;
    if (accepted == chain.count) {
        const Noise noise{chain.seed, stream_word(kTargetNoise, depth), chain.frame};
        return Outcome{accepted, level().race(level().support(target, chain.vocabulary, scratch), noise, scratch)};
    }
    const Noise noise{chain.seed, round_stream_word(kResidualNoise, depth, uint32_t(chain.last)), chain.frame};
    const float* draft = chain.draft + accepted * chain.vocabulary;
    Survivors from = level().residual(target, draft, chain.vocabulary, scratch);
    // Rounding can leave a residual without mass.
    if (from.count == 0) from = level().support(target, chain.vocabulary, scratch);
    return Outcome{accepted, level().race(from, noise, scratch)};
}

// The arguments that both rejection operations share.
cpspec_status check_chains(const char* operation, const float* target, const float* draft, int64_t vocabulary,
                           const cpspec_drafts* drafts, const uint64_t* seeds, const uint32_t* frames) {
    CPSPEC_CHECK(check_vocabulary(operation, vocabulary));
    int64_t total = 0;
    CPSPEC_CHECK(check_drafts(operation, drafts, vocabulary, &total));
    if (drafts->sequences == 0) return CPSPEC_OK;
    if (total > 0) CPSPEC_CHECK(check_pointers(operation, {{"draft", draft}}));
    return check_pointers(operation, {{"target", target}, {"seeds", seeds}, {"frames", frames}});
}

void commit(const cpspec_frame_state& state, int64_t row, const int64_t* drafts, Outcome outcome, const void* hidden) {
    int64_t* codes = state.codes + row * state.groups + state.last[row] + 1;
    for (int64_t t = 0; t < outcome.accepted; ++t) codes[t] = drafts[t];
    codes[outcome.accepted] = outcome.code;
    state.last[row] += outcome.accepted + 1;
    const size_t bytes = size_t(state.width) * element_bytes(state.dtype);
    std::memcpy(static_cast<char*>(state.context) + size_t(row) * bytes, hidden, bytes);
}

}  // namespace

cpspec_status cpspec_accept_greedy(const int64_t* targets, const cpspec_drafts* drafts, int64_t* accepted,
                                   int64_t* codes, cpspec_stream) {
    constexpr const char* kName = "cpspec_accept_greedy";
    begin_operation();
    int64_t total = 0;
    CPSPEC_CHECK(check_drafts(kName, drafts, INT64_MAX, &total));
    if (drafts->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"targets", targets}, {"accepted", accepted}, {"codes", codes}}));
    const int64_t* draft = drafts->codes;
    for (int64_t a = 0; a < drafts->sequences; ++a) {
        const int64_t count = drafts->counts[a];
        int64_t kept = 0;
        while (kept < count && draft[kept] == targets[kept]) ++kept;
        accepted[a] = kept;
        codes[a] = targets[kept];
        draft += count;
        targets += count + 1;
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_accept_rejection(const float* target, const float* draft, int64_t vocabulary,
                                      const cpspec_drafts* drafts, const int64_t* last, const uint64_t* seeds,
                                      const uint32_t* frames, int64_t* accepted, int64_t* codes, cpspec_stream) {
    constexpr const char* kName = "cpspec_accept_rejection";
    begin_operation();
    CPSPEC_CHECK(check_chains(kName, target, draft, vocabulary, drafts, seeds, frames));
    if (drafts->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"last", last}, {"accepted", accepted}, {"codes", codes}}));
    StackScratch stack;
    const RowScratch scratch = stack.row();
    Chain chain{target, draft, drafts->codes, 0, vocabulary, 0, 0, 0};
    for (int64_t a = 0; a < drafts->sequences; ++a) {
        chain.count = drafts->counts[a];
        chain.last = last[a];
        chain.seed = seeds[a];
        chain.frame = frames[a];
        const Outcome outcome = decide(chain, scratch);
        accepted[a] = outcome.accepted;
        codes[a] = outcome.code;
        chain.target += (chain.count + 1) * vocabulary;
        chain.draft += chain.count * vocabulary;
        chain.codes += chain.count;
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_accept_commit(const float* target, const float* draft, int64_t vocabulary,
                                   const cpspec_drafts* drafts, const uint64_t* seeds, const uint32_t* frames,
                                   const void* hidden, int64_t hidden_count, const int64_t* first_hidden,
                                   const cpspec_frame_state* state, int64_t* accepted, int64_t* commits,
                                   cpspec_stream) {
    constexpr const char* kName = "cpspec_accept_commit";
    begin_operation();
    CPSPEC_CHECK(check_chains(kName, target, draft, vocabulary, drafts, seeds, frames));
    CPSPEC_CHECK(check_state(kName, state));
    CPSPEC_CHECK(check_rows(kName, drafts, state));
    if (state->batch == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"commits", commits}}));
    std::memset(commits, 0, size_t(state->batch) * sizeof(int64_t));
    if (drafts->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"hidden", hidden}, {"first_hidden", first_hidden}, {"accepted", accepted}}));
    CPSPEC_CHECK(check_pointers(kName, {{"state->codes", state->codes}, {"state->context", state->context}}));
    for (int64_t a = 0; a < drafts->sequences; ++a) {
        CPSPEC_CHECK(check_index(kName, "first_hidden", first_hidden[a], hidden_count - drafts->counts[a]));
    }
    StackScratch stack;
    const RowScratch scratch = stack.row();
    const size_t bytes = size_t(state->width) * element_bytes(state->dtype);
    Chain chain{target, draft, drafts->codes, 0, vocabulary, 0, 0, 0};
    for (int64_t a = 0; a < drafts->sequences; ++a) {
        const int64_t row = drafts->rows[a];
        chain.count = drafts->counts[a];
        chain.last = state->last[row];
        chain.seed = seeds[a];
        chain.frame = frames[a];
        const Outcome outcome = decide(chain, scratch);
        accepted[a] = outcome.code < 0 ? -1 : outcome.accepted;
        if (outcome.code >= 0) {
            const int64_t source = first_hidden[a] + outcome.accepted;
            commit(*state, row, chain.codes, outcome, static_cast<const char*>(hidden) + size_t(source) * bytes);
            commits[row] = outcome.accepted + 1;
        }
        chain.target += (chain.count + 1) * vocabulary;
        chain.draft += chain.count * vocabulary;
        chain.codes += chain.count;
    }
    return CPSPEC_OK;
}
