// The checks of the CPU library that do not read arrays: these lie on the device.
#pragma once

#include "../core/narrow.h"
#include "../cpu/arguments.h"

namespace cpspec {

inline cpspec_status check_logits(const char* operation, const void* logits, cpspec_dtype dtype, int64_t rows,
                                  int64_t vocabulary, const int32_t* errors) {
    CPSPEC_CHECK(check_dtype(operation, "dtype", dtype));
    CPSPEC_CHECK(check_size(operation, "rows", rows, 0));
    CPSPEC_CHECK(check_size(operation, "vocabulary", vocabulary, 1));
    if (rows == 0) return CPSPEC_OK;
    return check_pointers(operation, {{"logits", logits}, {"errors", errors}});
}

// Codes may be NULL: there are no drafts then (cuda/drafts.cuh), which is all that can be known here.
inline cpspec_status check_drafts_on_device(const char* operation, const cpspec_drafts* drafts) {
    CPSPEC_CHECK(check_pointers(operation, {{"drafts", drafts}}));
    CPSPEC_CHECK(check_size(operation, "drafts->sequences", drafts->sequences, 0));
    if (drafts->sequences == 0) return CPSPEC_OK;
    return check_pointers(operation, {{"drafts->counts", drafts->counts}});
}

inline cpspec_status check_trees_on_device(const char* operation, const cpspec_trees* trees) {
    CPSPEC_CHECK(check_pointers(operation, {{"trees", trees}}));
    CPSPEC_CHECK(check_size(operation, "trees->sequences", trees->sequences, 0));
    if (trees->sequences == 0) return CPSPEC_OK;
    return check_pointers(operation, {{"trees->nodes", trees->nodes},
                                      {"trees->parents", trees->parents},
                                      {"trees->codes", trees->codes}});
}

// Calls `call` with a value of the element type that `dtype` stands for; it was checked.
template <class Call>
cpspec_status with_element(cpspec_dtype dtype, Call call) {
    switch (dtype) {
        case CPSPEC_FLOAT32: return call(float());
        case CPSPEC_FLOAT16: return call(Float16());
        case CPSPEC_BFLOAT16: return call(BFloat16());
    }
    return fail(CPSPEC_INVALID_ARGUMENT, "%d is no cpspec_dtype", int(dtype));
}

}  // namespace cpspec
