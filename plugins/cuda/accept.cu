// Launchers of the acceptance rules, of the commit, and of the KV rows that follow a tree's path.
#include "accept.cuh"
#include "arguments.h"
#include "cache_rows.cuh"

using namespace cpspec;

namespace {

cpspec_status check_round(const char* operation, const Round& round, int64_t vocabulary, const cpspec_drafts* drafts) {
    CPSPEC_CHECK(check_vocabulary(operation, vocabulary));
    CPSPEC_CHECK(check_rule(operation, round.rule));
    CPSPEC_CHECK(check_drafts_on_device(operation, drafts));
    if (drafts->sequences == 0) return CPSPEC_OK;
    return check_pointers(operation, {{"target", round.target}, {"seeds", round.seeds}, {"frames", round.frames}});
}

cpspec_status accept(const char* operation, const Round& round, int64_t vocabulary, const cpspec_drafts* drafts,
                     const int64_t* last, int64_t* accepted, int64_t* codes, cpspec_stream stream) {
    begin_operation();
    CPSPEC_CHECK(check_round(operation, round, vocabulary, drafts));
    if (drafts->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(operation, {{"last", last}, {"accepted", accepted}, {"codes", codes}}));
    return enqueue({operation, drafts->sequences, 0, stream}, accept_sequences, round, *drafts, last, accepted, codes);
}

}  // namespace

cpspec_status cpspec_accept_greedy(const int64_t* targets, const cpspec_drafts* drafts, const float* margins,
                                   const float* tolerances, int64_t* accepted, int64_t* codes, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_accept_greedy";
    begin_operation();
    CPSPEC_CHECK(check_drafts_on_device(kName, drafts));
    if (drafts->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"targets", targets}, {"accepted", accepted}, {"codes", codes}}));
    return enqueue({kName, drafts->sequences, 0, stream}, accept_greedy_sequences, targets, *drafts, margins,
                   tolerances, accepted, codes);
}

cpspec_status cpspec_accept_rejection(const float* target, const float* draft, int64_t vocabulary,
                                      const cpspec_drafts* drafts, const int64_t* last, const uint64_t* seeds,
                                      const uint32_t* frames, int64_t* accepted, int64_t* codes,
                                      cpspec_stream stream) {
    const Round round{target, draft, int(vocabulary), seeds, frames, CPSPEC_REJECTION, nullptr, nullptr};
    return accept("cpspec_accept_rejection", round, vocabulary, drafts, last, accepted, codes, stream);
}

cpspec_status cpspec_accept_block(const float* target, const float* draft, int64_t vocabulary,
                                  const cpspec_drafts* drafts, const int64_t* last, const uint64_t* seeds,
                                  const uint32_t* frames, int64_t* accepted, int64_t* codes, cpspec_stream stream) {
    const Round round{target, draft, int(vocabulary), seeds, frames, CPSPEC_BLOCK, nullptr, nullptr};
    return accept("cpspec_accept_block", round, vocabulary, drafts, last, accepted, codes, stream);
}

cpspec_status cpspec_accept_coupled(const float* target, int64_t vocabulary, const cpspec_drafts* drafts,
                                    const int64_t* last, const uint64_t* seeds, const uint32_t* frames,
                                    const float* tolerances, int64_t* accepted, int64_t* codes, cpspec_stream stream) {
    const Round round{target, nullptr, int(vocabulary), seeds, frames, CPSPEC_COUPLED, nullptr, tolerances};
    return accept("cpspec_accept_coupled", round, vocabulary, drafts, last, accepted, codes, stream);
}

cpspec_status cpspec_accept_commit(const float* target, const float* draft, int64_t vocabulary,
                                   const cpspec_drafts* drafts, const uint64_t* seeds, const uint32_t* frames,
                                   const void* hidden, int64_t hidden_count, const int64_t* first_hidden,
                                   const cpspec_frame_state* state, cpspec_rule rule, const float* margins,
                                   const float* tolerances, int64_t* accepted, int64_t* commits,
                                   cpspec_stream stream) {
    constexpr const char* kName = "cpspec_accept_commit";
    begin_operation();
    const Round round{target, draft, int(vocabulary), seeds, frames, rule, margins, tolerances};
    CPSPEC_CHECK(check_round(kName, round, vocabulary, drafts));
    CPSPEC_CHECK(check_state(kName, state));
    if (state->batch == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"commits", commits}}));
    if (drafts->sequences > 0) {
        CPSPEC_CHECK(check_pointers(kName, {{"drafts->rows", drafts->rows},
                                            {"hidden", hidden},
                                            {"first_hidden", first_hidden},
                                            {"accepted", accepted},
                                            {"state->codes", state->codes},
                                            {"state->last", state->last},
                                            {"state->context", state->context}}));
    }
    const Verified verified{static_cast<const char*>(hidden), hidden_count, first_hidden};
    return enqueue({kName, drafts->sequences + 1, 0, stream}, accept_and_commit, round, *drafts, verified, *state,
                   accepted, commits);
}

cpspec_status cpspec_copy_accepted_rows(void* const* caches, int64_t cache_count, cpspec_dtype dtype, int64_t batch,
                                        int64_t heads, int64_t capacity, int64_t head_size, const int64_t* rows,
                                        const int64_t* counts, const int64_t* first, int64_t sequences,
                                        const int64_t* sources, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_copy_accepted_rows";
    begin_operation();
    CPSPEC_CHECK(check_dtype(kName, "dtype", dtype));
    CPSPEC_CHECK(check_size(kName, "cache_count", cache_count, 0));
    CPSPEC_CHECK(check_size(kName, "heads", heads, 1));
    CPSPEC_CHECK(check_size(kName, "capacity", capacity, 1));
    CPSPEC_CHECK(check_size(kName, "head_size", head_size, 1));
    CPSPEC_CHECK(check_size(kName, "sequences", sequences, 0));
    if (cache_count == 0 || sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"caches", caches}, {"rows", rows}, {"counts", counts}}));
    if (!sources) return CPSPEC_OK;  // nothing moves
    CPSPEC_CHECK(check_pointers(kName, {{"first", first}}));
    const CacheRows job{caches, dtype, batch, heads, capacity, head_size, rows, counts, first, sources, sequences};
    return enqueue({kName, cache_count * sequences * heads, 0, stream}, copy_cache_rows, job);
}
