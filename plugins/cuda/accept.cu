// Launchers of the acceptance rules, of the commit, and of the KV rows that follow a tree's path.
#include "accept.cuh"
#include "arguments.h"
#include "cache_rows.cuh"

using namespace cpspec;

namespace {

cpspec_status check_rejection(const char* operation, const Rejection& rejection, int64_t vocabulary,
                              const cpspec_drafts* drafts) {
    CPSPEC_CHECK(check_vocabulary(operation, vocabulary));
    CPSPEC_CHECK(check_drafts_on_device(operation, drafts));
    if (drafts->sequences == 0) return CPSPEC_OK;
    return check_pointers(operation, {{"target", rejection.target},
                                      {"seeds", rejection.seeds},
                                      {"frames", rejection.frames}});
}

}  // namespace

cpspec_status cpspec_accept_greedy(const int64_t* targets, const cpspec_drafts* drafts, int64_t* accepted,
                                   int64_t* codes, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_accept_greedy";
    begin_operation();
    CPSPEC_CHECK(check_drafts_on_device(kName, drafts));
    if (drafts->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"targets", targets}, {"accepted", accepted}, {"codes", codes}}));
    return enqueue({kName, drafts->sequences, 0, stream}, accept_greedy_sequences, targets, *drafts, accepted, codes);
}

cpspec_status cpspec_accept_rejection(const float* target, const float* draft, int64_t vocabulary,
                                      const cpspec_drafts* drafts, const int64_t* last, const uint64_t* seeds,
                                      const uint32_t* frames, int64_t* accepted, int64_t* codes,
                                      cpspec_stream stream) {
    constexpr const char* kName = "cpspec_accept_rejection";
    begin_operation();
    const Rejection rejection{target, draft, int(vocabulary), seeds, frames};
    CPSPEC_CHECK(check_rejection(kName, rejection, vocabulary, drafts));
    if (drafts->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"last", last}, {"accepted", accepted}, {"codes", codes}}));
    return enqueue({kName, drafts->sequences, 0, stream}, accept_rejection_sequences, rejection, *drafts, last,
                   accepted, codes);
}

cpspec_status cpspec_accept_commit(const float* target, const float* draft, int64_t vocabulary,
                                   const cpspec_drafts* drafts, const uint64_t* seeds, const uint32_t* frames,
                                   const void* hidden, int64_t hidden_count, const int64_t* first_hidden,
                                   const cpspec_frame_state* state, int64_t* accepted, int64_t* commits,
                                   cpspec_stream stream) {
    constexpr const char* kName = "cpspec_accept_commit";
    begin_operation();
    const Rejection rejection{target, draft, int(vocabulary), seeds, frames};
    CPSPEC_CHECK(check_rejection(kName, rejection, vocabulary, drafts));
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
    return enqueue({kName, drafts->sequences + 1, 0, stream}, accept_and_commit, rejection, *drafts, verified, *state,
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
