// Launchers of the codec embeddings and of the verify pass's input.
#include "arguments.h"
#include "embeddings.cuh"

using namespace cpspec;

cpspec_status cpspec_gather_codec_embeddings(const cpspec_tables* tables, const int64_t* table_ids,
                                             const int64_t* codes, int64_t rows, void* out, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_gather_codec_embeddings";
    begin_operation();
    CPSPEC_CHECK(check_tables(kName, tables));
    CPSPEC_CHECK(check_size(kName, "rows", rows, 0));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"table_ids", table_ids}, {"codes", codes}, {"out", out}}));
    return enqueue({kName, rows, 0, stream}, gather_rows, *tables, table_ids, codes, static_cast<char*>(out));
}

cpspec_status cpspec_sum_codec_embeddings(const cpspec_tables* tables, const int64_t* codes, int64_t batch,
                                          float* feedback, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_sum_codec_embeddings";
    begin_operation();
    CPSPEC_CHECK(check_tables(kName, tables));
    CPSPEC_CHECK(check_size(kName, "batch", batch, 0));
    if (batch == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"codes", codes}, {"feedback", feedback}}));
    const int64_t pieces = (tables->width + block_threads() - 1) / block_threads();
    return with_element(tables->dtype, [&](auto element) {
        return enqueue({kName, batch * pieces, 0, stream}, sum_rows<decltype(element)>, *tables, codes, pieces,
                       feedback);
    });
}

cpspec_status cpspec_build_verify_input(const cpspec_frame_state* state, const cpspec_drafts* drafts,
                                        const cpspec_tables* tables, int64_t positions, int64_t* fed, void* embeddings,
                                        cpspec_stream stream) {
    constexpr const char* kName = "cpspec_build_verify_input";
    begin_operation();
    CPSPEC_CHECK(check_state(kName, state));
    CPSPEC_CHECK(check_tables(kName, tables));
    CPSPEC_CHECK(check_size(kName, "positions", positions, 1));
    CPSPEC_CHECK(check_drafts_on_device(kName, drafts));
    if (drafts->sequences > 0) CPSPEC_CHECK(check_pointers(kName, {{"drafts->rows", drafts->rows}}));
    if (state->batch == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"state->codes", state->codes},
                                        {"state->last", state->last},
                                        {"embeddings", embeddings}}));
    return enqueue({kName, state->batch * positions, 0, stream}, build_verify_rows, *state, *drafts, *tables,
                   positions, fed, static_cast<char*>(embeddings));
}

cpspec_status cpspec_build_tree_input(const cpspec_frame_state* state, const cpspec_trees* trees,
                                      const cpspec_tables* tables, int64_t positions, int64_t* fed, void* embeddings,
                                      cpspec_stream stream) {
    constexpr const char* kName = "cpspec_build_tree_input";
    begin_operation();
    CPSPEC_CHECK(check_state(kName, state));
    CPSPEC_CHECK(check_tables(kName, tables));
    CPSPEC_CHECK(check_size(kName, "positions", positions, 1));
    CPSPEC_CHECK(check_trees_on_device(kName, trees));
    if (trees->sequences > 0) CPSPEC_CHECK(check_pointers(kName, {{"trees->rows", trees->rows}}));
    if (state->batch == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"state->codes", state->codes},
                                        {"state->last", state->last},
                                        {"embeddings", embeddings}}));
    return enqueue({kName, state->batch * positions, 0, stream}, build_tree_rows, *state, *trees, *tables, positions,
                   fed, static_cast<char*>(embeddings));
}
