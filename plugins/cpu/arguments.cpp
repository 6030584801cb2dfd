#include "arguments.h"

#include <cinttypes>

namespace cpspec {

cpspec_status check_dtype(const char* operation, const char* argument, int dtype) {
    if (dtype >= CPSPEC_FLOAT32 && dtype <= CPSPEC_BFLOAT16) return CPSPEC_OK;
    return fail(CPSPEC_INVALID_ARGUMENT, "%s: %s is %d, which is no cpspec_dtype", operation, argument, dtype);
}

cpspec_status check_size(const char* operation, const char* argument, int64_t size, int64_t at_least) {
    if (size >= at_least) return CPSPEC_OK;
    return fail(CPSPEC_INVALID_ARGUMENT, "%s: %s is %" PRId64 ", it must be at least %" PRId64, operation, argument,
                size, at_least);
}

cpspec_status check_vocabulary(const char* operation, int64_t vocabulary) {
    CPSPEC_CHECK(check_size(operation, "vocabulary", vocabulary, 1));
    if (vocabulary <= CPSPEC_MAX_VOCABULARY) return CPSPEC_OK;
    return fail(CPSPEC_UNSUPPORTED, "%s: the vocabulary has %" PRId64 " codes, at most %d are supported", operation,
                vocabulary, CPSPEC_MAX_VOCABULARY);
}

cpspec_status check_index(const char* operation, const char* argument, int64_t index, int64_t size) {
    if (index >= 0 && index < size) return CPSPEC_OK;
    return fail(CPSPEC_INVALID_ARGUMENT, "%s: %s holds %" PRId64 ", it must be at least 0 and below %" PRId64,
                operation, argument, index, size);
}

cpspec_status check_filters(const char* operation, const cpspec_filter_rows* filters) {
    CPSPEC_CHECK(check_pointers(operation, {{"filters", filters}}));
    return check_pointers(operation, {{"filters->temperature", filters->temperature},
                                      {"filters->top_k", filters->top_k},
                                      {"filters->top_p", filters->top_p}});
}

cpspec_status check_noise(const char* operation, const cpspec_noise_rows* noise) {
    CPSPEC_CHECK(check_pointers(operation, {{"noise", noise}}));
    return check_pointers(operation, {{"noise->seeds", noise->seeds},
                                      {"noise->streams", noise->streams},
                                      {"noise->frames", noise->frames}});
}

cpspec_status check_heads(const char* operation, const cpspec_heads* heads, const cpspec_head_rows* rows) {
    CPSPEC_CHECK(check_pointers(operation, {{"heads", heads}, {"rows", rows}}));
    CPSPEC_CHECK(check_dtype(operation, "heads->dtype", heads->dtype));
    CPSPEC_CHECK(check_dtype(operation, "rows->dtype", rows->dtype));
    CPSPEC_CHECK(check_size(operation, "heads->count", heads->count, 1));
    CPSPEC_CHECK(check_size(operation, "heads->vocabulary", heads->vocabulary, 1));
    CPSPEC_CHECK(check_size(operation, "heads->width", heads->width, 1));
    CPSPEC_CHECK(check_size(operation, "rows->count", rows->count, 0));
    if (rows->count == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(operation, {{"heads->weights", heads->weights},
                                            {"rows->hidden", rows->hidden},
                                            {"rows->hidden_rows", rows->hidden_rows},
                                            {"rows->head_rows", rows->head_rows}}));
    for (int64_t r = 0; r < rows->count; ++r) {
        CPSPEC_CHECK(check_index(operation, "rows->hidden_rows", rows->hidden_rows[r], rows->hidden_count));
        CPSPEC_CHECK(check_index(operation, "rows->head_rows", rows->head_rows[r], heads->count));
    }
    return CPSPEC_OK;
}

cpspec_status check_tables(const char* operation, const cpspec_tables* tables) {
    CPSPEC_CHECK(check_pointers(operation, {{"tables", tables}}));
    CPSPEC_CHECK(check_pointers(operation, {{"tables->tables", tables->tables}, {"tables->rows", tables->rows}}));
    CPSPEC_CHECK(check_dtype(operation, "tables->dtype", tables->dtype));
    CPSPEC_CHECK(check_size(operation, "tables->count", tables->count, 1));
    return check_size(operation, "tables->width", tables->width, 1);
}

cpspec_status check_state(const char* operation, const cpspec_frame_state* state) {
    CPSPEC_CHECK(check_pointers(operation, {{"state", state}}));
    CPSPEC_CHECK(check_dtype(operation, "state->dtype", state->dtype));
    CPSPEC_CHECK(check_size(operation, "state->batch", state->batch, 0));
    CPSPEC_CHECK(check_size(operation, "state->groups", state->groups, 1));
    if (state->groups > CPSPEC_MAX_GROUPS) {
        return fail(CPSPEC_UNSUPPORTED, "%s: state->groups is %" PRId64 ", at most %d are supported", operation,
                    state->groups, CPSPEC_MAX_GROUPS);
    }
    return check_size(operation, "state->width", state->width, 1);
}

cpspec_status check_counts(const char* operation, const char* argument, const int64_t* counts, int64_t sequences,
                           int64_t size, int64_t* total) {
    *total = 0;
    for (int64_t a = 0; a < sequences; ++a) {
        CPSPEC_CHECK(check_index(operation, argument, counts[a], size));
        *total += counts[a];
    }
    return CPSPEC_OK;
}

cpspec_status check_drafts(const char* operation, const cpspec_drafts* drafts, int64_t vocabulary, int64_t* total) {
    *total = 0;
    CPSPEC_CHECK(check_pointers(operation, {{"drafts", drafts}}));
    CPSPEC_CHECK(check_size(operation, "drafts->sequences", drafts->sequences, 0));
    if (drafts->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(operation, {{"drafts->counts", drafts->counts}}));
    // All counts first: with a wrong one their sum, which is what the array of codes holds, means nothing.
    CPSPEC_CHECK(check_counts(operation, "drafts->counts", drafts->counts, drafts->sequences, CPSPEC_MAX_GROUPS,
                              total));
    if (*total == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(operation, {{"drafts->codes", drafts->codes}}));
    for (int64_t i = 0; i < *total; ++i) {
        CPSPEC_CHECK(check_index(operation, "drafts->codes", drafts->codes[i], vocabulary));
    }
    return CPSPEC_OK;
}

cpspec_status check_trees(const char* operation, const cpspec_trees* trees) {
    CPSPEC_CHECK(check_pointers(operation, {{"trees", trees}}));
    CPSPEC_CHECK(check_size(operation, "trees->sequences", trees->sequences, 0));
    if (trees->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(operation, {{"trees->nodes", trees->nodes},
                                            {"trees->parents", trees->parents},
                                            {"trees->codes", trees->codes}}));
    for (int64_t a = 0; a < trees->sequences; ++a) {
        CPSPEC_CHECK(check_size(operation, "trees->nodes", trees->nodes[a], 1));
        CPSPEC_CHECK(check_index(operation, "trees->nodes", trees->nodes[a], CPSPEC_MAX_TREE_NODES + 1));
    }
    const int64_t* parents = trees->parents;
    for (int64_t a = 0; a < trees->sequences; ++a) {
        for (int64_t node = 1; node < trees->nodes[a]; ++node) {
            CPSPEC_CHECK(check_index(operation, "trees->parents", parents[node], node));
        }
        parents += trees->nodes[a];
    }
    return CPSPEC_OK;
}

cpspec_status check_rule(const char* operation, int rule) {
    if (rule >= CPSPEC_REJECTION && rule <= CPSPEC_COUPLED) return CPSPEC_OK;
    return fail(CPSPEC_INVALID_ARGUMENT, "%s: rule is %d, which is no cpspec_rule", operation, rule);
}

cpspec_status check_tolerances(const char* operation, const float* tolerances, int64_t sequences) {
    for (int64_t a = 0; tolerances && a < sequences; ++a) {
        if (tolerances[a] >= 0.0f) continue;
        return fail(CPSPEC_INVALID_ARGUMENT, "%s: tolerances holds %g, it must be at least 0", operation,
                    double(tolerances[a]));
    }
    return CPSPEC_OK;
}

cpspec_status check_rows(const char* operation, const cpspec_drafts* drafts, const cpspec_frame_state* state) {
    if (drafts->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(operation, {{"drafts->rows", drafts->rows}, {"state->last", state->last}}));
    for (int64_t a = 0; a < drafts->sequences; ++a) {
        const int64_t row = drafts->rows[a];
        CPSPEC_CHECK(check_index(operation, "drafts->rows", row, state->batch));
        CPSPEC_CHECK(check_index(operation, "state->last", state->last[row], state->groups - 1 - drafts->counts[a]));
    }
    return CPSPEC_OK;
}

}  // namespace cpspec
