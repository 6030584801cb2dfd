// Grouped heads, alone and fused with what follows them: draft and score.
#include "arguments.h"
#include "steps.h"

using namespace cpspec;

namespace {

// What draft and score have in common with one another.
cpspec_status check_fused(const char* operation, const cpspec_heads* heads, const cpspec_head_rows* rows,
                          const cpspec_filter_rows* filters, const float* logits, const float* probabilities,
                          const int32_t* errors) {
    CPSPEC_CHECK(check_heads(operation, heads, rows));
    CPSPEC_CHECK(check_vocabulary(operation, heads->vocabulary));
    if (rows->count == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_filters(operation, filters));
    return check_pointers(operation, {{"logits", logits}, {"probabilities", probabilities}, {"errors", errors}});
}

}  // namespace

cpspec_status cpspec_grouped_heads(const cpspec_heads* heads, const cpspec_head_rows* rows, float* logits,
                                   cpspec_stream) {
    constexpr const char* kName = "cpspec_grouped_heads";
    begin_operation();
    CPSPEC_CHECK(check_heads(kName, heads, rows));
    if (rows->count == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"logits", logits}}));
    level().heads(*heads, *rows, 0, heads->vocabulary, logits);
    return CPSPEC_OK;
}

cpspec_status cpspec_draft(const cpspec_heads* heads, const cpspec_head_rows* rows, const cpspec_filter_rows* filters,
                           const cpspec_noise_rows* noise, float* logits, uint32_t*, float* probabilities,
                           int64_t* codes, int32_t* errors, cpspec_stream) {
    constexpr const char* kName = "cpspec_draft";
    begin_operation();
    CPSPEC_CHECK(check_fused(kName, heads, rows, filters, logits, probabilities, errors));
    if (rows->count == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_noise(kName, noise));
    CPSPEC_CHECK(check_pointers(kName, {{"codes", codes}}));
    const int64_t vocabulary = heads->vocabulary;
    level().heads(*heads, *rows, 0, vocabulary, logits);
    StackScratch stack;
    const RowScratch scratch = stack.row();
    for (int64_t r = 0; r < rows->count; ++r) {
        errors[r] = filter_and_draw(logits + r * vocabulary, vocabulary, filter_of(filters, r), noise_of(noise, r),
                                    scratch, probabilities + r * vocabulary, &codes[r]);
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_score(const cpspec_heads* heads, const cpspec_head_rows* rows, const cpspec_filter_rows* filters,
                           float* logits, uint32_t*, float* probabilities, int32_t* errors, cpspec_stream) {
    constexpr const char* kName = "cpspec_score";
    begin_operation();
    CPSPEC_CHECK(check_fused(kName, heads, rows, filters, logits, probabilities, errors));
    if (rows->count == 0) return CPSPEC_OK;
    const int64_t vocabulary = heads->vocabulary;
    level().heads(*heads, *rows, 0, vocabulary, logits);
    StackScratch stack;
    const RowScratch scratch = stack.row();
    for (int64_t r = 0; r < rows->count; ++r) {
        Survivors survivors;
        errors[r] = filter_dense(logits + r * vocabulary, vocabulary, filter_of(filters, r), scratch,
                                 probabilities + r * vocabulary, &survivors);
    }
    return CPSPEC_OK;
}
