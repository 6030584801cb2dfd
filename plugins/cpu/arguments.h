// The checks that arguments go through at the border.
#pragma once

#include "status.h"

namespace cpspec {

// Each returns CPSPEC_OK or fails by the name of the operation and the argument.
cpspec_status check_dtype(const char* operation, const char* argument, int dtype);
cpspec_status check_size(const char* operation, const char* argument, int64_t size, int64_t at_least);
cpspec_status check_vocabulary(const char* operation, int64_t vocabulary);
cpspec_status check_index(const char* operation, const char* argument, int64_t index, int64_t size);

struct NamedPointer {
    const char* name;
    const void* pointer;
};
template <size_t count>
cpspec_status check_pointers(const char* operation, const NamedPointer (&arguments)[count]) {
    for (const NamedPointer& each : arguments) {
        if (!each.pointer) return fail(CPSPEC_INVALID_ARGUMENT, "%s: %s is NULL", operation, each.name);
    }
    return CPSPEC_OK;
}

cpspec_status check_filters(const char* operation, const cpspec_filter_rows* filters);
cpspec_status check_noise(const char* operation, const cpspec_noise_rows* noise);
cpspec_status check_heads(const char* operation, const cpspec_heads* heads, const cpspec_head_rows* rows);
cpspec_status check_tables(const char* operation, const cpspec_tables* tables);
cpspec_status check_state(const char* operation, const cpspec_frame_state* state);

// That every count lies in [0, size), and what they sum to.
cpspec_status check_counts(const char* operation, const char* argument, const int64_t* counts, int64_t sequences,
                           int64_t size, int64_t* total);

// Counts and codes; every code lies in [0, vocabulary). `rows` is not looked at. `total` becomes the sum of the counts;
// arrays of that length may be NULL where it is 0.
cpspec_status check_drafts(const char* operation, const cpspec_drafts* drafts, int64_t vocabulary, int64_t* total);

// Nodes and parents. `rows` and `codes` are not looked at.
cpspec_status check_trees(const char* operation, const cpspec_trees* trees);

cpspec_status check_rule(const char* operation, int rule);
cpspec_status check_tolerances(const char* operation, const float* tolerances, int64_t sequences);

// That every sequence stands in a row of the batch whose frame has room for its drafts and the code after them.
cpspec_status check_rows(const char* operation, const cpspec_drafts* drafts, const cpspec_frame_state* state);

}  // namespace cpspec
