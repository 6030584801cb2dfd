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
                                 const float* margins, float tolerance, int64_t most, int64_t* path,
                                 int64_t* path_lengths, int64_t* codes, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_accept_tree";
    begin_operation();
    CPSPEC_CHECK(check_vocabulary(kName, vocabulary));
    CPSPEC_CHECK(check_tolerance(kName, tolerance));
    CPSPEC_CHECK(check_size(kName, "most", most, 1));
    CPSPEC_CHECK(check_trees_on_device(kName, trees));
    if (trees->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"target", target}, {"last", last}, {"seeds", seeds}, {"frames", frames}}));
    CPSPEC_CHECK(check_pointers(kName, {{"path", path}, {"path_lengths", path_lengths}, {"codes", codes}}));
    const Walk walk{target, int(vocabulary), last, seeds, frames, margins, tolerance, most, path, path_lengths, codes};
    return enqueue({kName, trees->sequences, 0, stream}, walk_trees, walk, *trees);
}
