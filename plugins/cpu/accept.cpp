// Acceptance of draft chains: how many drafts stand, which code follows them, and their commit.
#include <cstring>

#include "arguments.h"
#include "decide.h"
#include "sizes.h"

using namespace cpspec;

namespace {

// What is verified in one call.
struct Round {
    const float* target;
    const float* draft;
    int64_t vocabulary;
    const cpspec_drafts* drafts;
    const uint64_t* seeds;
    const uint32_t* frames;
    cpspec_rule rule;
    const float* margins;
    const float* tolerances;
};

cpspec_status check_round(const char* operation, const Round& round) {
    CPSPEC_CHECK(check_vocabulary(operation, round.vocabulary));
    CPSPEC_CHECK(check_rule(operation, round.rule));
    int64_t total = 0;
    CPSPEC_CHECK(check_drafts(operation, round.drafts, round.vocabulary, &total));
    CPSPEC_CHECK(check_tolerances(operation, round.tolerances, round.drafts->sequences));
    if (round.drafts->sequences == 0) return CPSPEC_OK;
    if (total > 0 && round.rule != CPSPEC_COUPLED) CPSPEC_CHECK(check_pointers(operation, {{"draft", round.draft}}));
    return check_pointers(operation, {{"target", round.target}, {"seeds", round.seeds}, {"frames", round.frames}});
}

// Decides every sequence in turn: `last_of(a)` is where it stands, `done(a, chain, outcome)` learns the result.
template <class LastOf, class Done>
void decide_each(const Round& round, LastOf last_of, Done done) {
    StackScratch stack;
    const RowScratch scratch = stack.row();
    Chain chain{round.target, round.draft, round.drafts->codes, round.margins, 0, round.vocabulary, 0, 0, 0};
    for (int64_t a = 0; a < round.drafts->sequences; ++a) {
        chain.count = round.drafts->counts[a];
        chain.last = last_of(a);
        chain.seed = round.seeds[a];
        chain.frame = round.frames[a];
        done(a, chain, decide(chain, round.rule, tolerance_of(round.tolerances, a), scratch));
        chain.target += (chain.count + 1) * chain.vocabulary;
        if (chain.draft) chain.draft += chain.count * chain.vocabulary;
        if (chain.codes) chain.codes += chain.count;
        if (chain.margins) chain.margins += chain.count + 1;
    }
}

cpspec_status accept(const char* operation, const Round& round, const int64_t* last, int64_t* accepted,
                     int64_t* codes) {
    begin_operation();
    CPSPEC_CHECK(check_round(operation, round));
    if (round.drafts->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(operation, {{"last", last}, {"accepted", accepted}, {"codes", codes}}));
    decide_each(
        round, [last](int64_t a) { return last[a]; },
        [accepted, codes](int64_t a, const Chain&, Outcome outcome) {
            accepted[a] = outcome.accepted;
            codes[a] = outcome.code;
        });
    return CPSPEC_OK;
}

// Returns how many codes were committed. `hidden` is the sequence's first verified row.
int64_t commit(const cpspec_frame_state& state, int64_t row, const Chain& chain, Outcome outcome, const char* hidden) {
    const int64_t committed = outcome.accepted + (outcome.code >= 0 ? 1 : 0);
    if (committed == 0) return 0;
    int64_t* codes = state.codes + row * state.groups + state.last[row] + 1;
    for (int64_t t = 0; t < outcome.accepted; ++t) codes[t] = chain.codes[t];
    if (outcome.code >= 0) codes[outcome.accepted] = outcome.code;
    state.last[row] += committed;
    const size_t bytes = size_t(state.width) * element_bytes(state.dtype);
    std::memcpy(static_cast<char*>(state.context) + size_t(row) * bytes, hidden + size_t(committed - 1) * bytes, bytes);
    return committed;
}

}  // namespace

cpspec_status cpspec_accept_greedy(const int64_t* targets, const cpspec_drafts* drafts, const float* margins,
                                   const float* tolerances, int64_t* accepted, int64_t* codes, cpspec_stream) {
    constexpr const char* kName = "cpspec_accept_greedy";
    begin_operation();
    int64_t total = 0;
    CPSPEC_CHECK(check_drafts(kName, drafts, INT64_MAX, &total));
    CPSPEC_CHECK(check_tolerances(kName, tolerances, drafts->sequences));
    if (drafts->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"targets", targets}, {"accepted", accepted}, {"codes", codes}}));
    const int64_t* draft = drafts->codes;
    for (int64_t a = 0, first = 0; a < drafts->sequences; ++a) {
        const int64_t count = drafts->counts[a];
        const float tolerance = tolerance_of(tolerances, a);
        const auto guarded = [&](int64_t row) { return margins && is_guarded(margins[row], tolerance); };
        int64_t kept = 0;
        while (kept < count && !guarded(first + kept) && draft[kept] == targets[first + kept]) ++kept;
        accepted[a] = kept;
        codes[a] = guarded(first + kept) ? kGuarded : targets[first + kept];
        if (draft) draft += count;
        first += count + 1;
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_accept_rejection(const float* target, const float* draft, int64_t vocabulary,
                                      const cpspec_drafts* drafts, const int64_t* last, const uint64_t* seeds,
                                      const uint32_t* frames, int64_t* accepted, int64_t* codes, cpspec_stream) {
    const Round round{target, draft, vocabulary, drafts, seeds, frames, CPSPEC_REJECTION, nullptr, nullptr};
    return accept("cpspec_accept_rejection", round, last, accepted, codes);
}

cpspec_status cpspec_accept_block(const float* target, const float* draft, int64_t vocabulary,
                                  const cpspec_drafts* drafts, const int64_t* last, const uint64_t* seeds,
                                  const uint32_t* frames, int64_t* accepted, int64_t* codes, cpspec_stream) {
    const Round round{target, draft, vocabulary, drafts, seeds, frames, CPSPEC_BLOCK, nullptr, nullptr};
    return accept("cpspec_accept_block", round, last, accepted, codes);
}

cpspec_status cpspec_accept_coupled(const float* target, int64_t vocabulary, const cpspec_drafts* drafts,
                                    const int64_t* last, const uint64_t* seeds, const uint32_t* frames,
                                    const float* tolerances, int64_t* accepted, int64_t* codes, cpspec_stream) {
    const Round round{target, nullptr, vocabulary, drafts, seeds, frames, CPSPEC_COUPLED, nullptr, tolerances};
    return accept("cpspec_accept_coupled", round, last, accepted, codes);
}

cpspec_status cpspec_accept_commit(const float* target, const float* draft, int64_t vocabulary,
                                   const cpspec_drafts* drafts, const uint64_t* seeds, const uint32_t* frames,
                                   const void* hidden, int64_t hidden_count, const int64_t* first_hidden,
                                   const cpspec_frame_state* state, cpspec_rule rule, const float* margins,
                                   const float* tolerances, int64_t* accepted, int64_t* commits, cpspec_stream) {
    constexpr const char* kName = "cpspec_accept_commit";
    begin_operation();
    const Round round{target, draft, vocabulary, drafts, seeds, frames, rule, margins, tolerances};
    CPSPEC_CHECK(check_round(kName, round));
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
    const size_t bytes = size_t(state->width) * element_bytes(state->dtype);
    decide_each(
        round, [&](int64_t a) { return state->last[drafts->rows[a]]; },
        [&](int64_t a, const Chain& chain, Outcome outcome) {
            accepted[a] = outcome.code == kWithoutMass ? -1 : outcome.accepted;
            if (outcome.code == kWithoutMass) return;
            const char* first = static_cast<const char*>(hidden) + size_t(first_hidden[a]) * bytes;
            commits[drafts->rows[a]] = commit(*state, drafts->rows[a], chain, outcome, first);
        });
    return CPSPEC_OK;
}
