// Launchers of what trees of drafts need.
#include "arguments.h"
#include "trees.cuh"

using namespace cpspec;

cpspec_status cpspec_draw_candidates(const float* probabilities, int64_t rows, int64_t vocabulary,
                                     const int64_t* widths, int64_t most, const cpspec_noise_rows* noise,
                                     int64_t* candidates, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_draw_candidates";
    begin_operation();
    CPSPEC_CHECK(check_size(kName, "rows", rows, 0));
    CPSPEC_CHECK(check_size(kName, "most", most, 1));
    CPSPEC_CHECK(check_vocabulary(kName, vocabulary));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(
        kName, {{"probabilities", probabilities}, {"widths", widths}, {"candidates", candidates}}));
    CPSPEC_CHECK(check_noise(kName, noise));
    return enqueue({kName, rows, row_bytes(vocabulary), stream}, draw_candidate_rows, probabilities, int(vocabulary),
                   widths, most, *noise, candidates);
}

cpspec_status cpspec_accept_tree(const float* target, int64_t vocabulary, const cpspec_trees* trees,
                                 const int64_t* last, const uint64_t* seeds, const uint32_t* frames,
                                 const float* margins, const float* tolerances, int64_t most, int64_t* path,
                                 int64_t* path_lengths, int64_t* codes, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_accept_tree";
    begin_operation();
    CPSPEC_CHECK(check_vocabulary(kName, vocabulary));
    CPSPEC_CHECK(check_size(kName, "most", most, 1));
    CPSPEC_CHECK(check_trees_on_device(kName, trees));
    if (trees->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"target", target}, {"last", last}, {"seeds", seeds}, {"frames", frames}}));
    CPSPEC_CHECK(check_pointers(kName, {{"path", path}, {"path_lengths", path_lengths}, {"codes", codes}}));
    const Forest forest{target, int(vocabulary), seeds, frames, margins, tolerances, most};
    return enqueue({kName, trees->sequences, 0, stream}, walk_trees, forest, *trees, last,
                   Paths{path, path_lengths, codes});
}

cpspec_status cpspec_accept_commit_tree(const float* target, int64_t vocabulary, const cpspec_trees* trees,
                                        const uint64_t* seeds, const uint32_t* frames, const void* hidden,
                                        int64_t hidden_count, const int64_t* first_hidden,
                                        const cpspec_frame_state* state, const float* margins, const float* tolerances,
                                        const int64_t* first, int64_t most, int64_t* accepted, int64_t* commits,
                                        int64_t* sources, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_accept_commit_tree";
    begin_operation();
    CPSPEC_CHECK(check_vocabulary(kName, vocabulary));
    CPSPEC_CHECK(check_size(kName, "most", most, 1));
    CPSPEC_CHECK(check_index(kName, "most", most, CPSPEC_MAX_GROUPS + 1));
    CPSPEC_CHECK(check_trees_on_device(kName, trees));
    CPSPEC_CHECK(check_state(kName, state));
    if (state->batch == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"commits", commits}}));
    if (trees->sequences > 0) {
        CPSPEC_CHECK(check_pointers(kName, {{"trees->rows", trees->rows},
                                            {"target", target},
                                            {"seeds", seeds},
                                            {"frames", frames},
                                            {"hidden", hidden},
                                            {"first_hidden", first_hidden},
                                            {"first", first},
                                            {"accepted", accepted},
                                            {"sources", sources},
                                            {"state->codes", state->codes},
                                            {"state->last", state->last},
                                            {"state->context", state->context}}));
    }
    const Forest forest{target, int(vocabulary), seeds, frames, margins, tolerances, most};
    const Verified verified{static_cast<const char*>(hidden), hidden_count, first_hidden};
    return enqueue({kName, trees->sequences + 1, 0, stream}, walk_and_commit, forest, *trees, verified, *state,
                   TreeCommit{first, accepted, commits, sources});
}
