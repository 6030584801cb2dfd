// Launchers of the grouped heads: alone, with the filter and the draw (draft), and with the filter (score).
#include "arguments.h"
#include "heads.cuh"

using namespace cpspec;

namespace {

cpspec_status check_heads_on_device(const char* operation, const cpspec_heads* heads, const cpspec_head_rows* rows,
                                    const float* logits) {
    CPSPEC_CHECK(check_pointers(operation, {{"heads", heads}, {"rows", rows}}));
    CPSPEC_CHECK(check_dtype(operation, "heads->dtype", heads->dtype));
    CPSPEC_CHECK(check_dtype(operation, "rows->dtype", rows->dtype));
    CPSPEC_CHECK(check_size(operation, "heads->count", heads->count, 1));
    CPSPEC_CHECK(check_size(operation, "heads->vocabulary", heads->vocabulary, 1));
    CPSPEC_CHECK(check_size(operation, "heads->width", heads->width, 1));
    CPSPEC_CHECK(check_size(operation, "rows->count", rows->count, 0));
    if (heads->width > INT32_MAX)
        return fail(CPSPEC_UNSUPPORTED, "%s: heads->width is more than %d", operation, INT32_MAX);
    if (rows->count == 0) return CPSPEC_OK;
    return check_pointers(operation, {{"heads->weights", heads->weights},
                                      {"rows->hidden", rows->hidden},
                                      {"rows->hidden_rows", rows->hidden_rows},
                                      {"rows->head_rows", rows->head_rows},
                                      {"logits", logits}});
}

cpspec_status check_follow_up(const char* operation, const cpspec_heads& heads, const cpspec_filter_rows* filters,
                              const RowFollowUp& next) {
    CPSPEC_CHECK(check_vocabulary(operation, heads.vocabulary));
    CPSPEC_CHECK(check_filters(operation, filters));
    return check_pointers(operation, {{"arrivals", next.arrivals},
                                      {"probabilities", next.output.probabilities},
                                      {"errors", next.output.errors}});
}

cpspec_status launch_heads(const char* operation, const cpspec_heads& heads, const cpspec_head_rows& rows,
                           float* logits, const RowFollowUp& next, cpspec_stream stream) {
    const int64_t words = tile_words(block_threads());
    const int64_t tiles = (heads.vocabulary + words - 1) / words;
    const size_t dynamic_bytes = next.output.probabilities ? row_bytes(heads.vocabulary) : 0;
    return with_element(heads.dtype, [&](auto weight) {
        return with_element(rows.dtype, [&](auto hidden) {
            return enqueue({operation, rows.count * tiles, dynamic_bytes, stream},
                           grouped_heads_rows<decltype(weight), decltype(hidden)>, HeadsInput{heads, rows, logits},
                           uint32_t(tiles), next);
        });
    });
}

}  // namespace

cpspec_status cpspec_grouped_heads(const cpspec_heads* heads, const cpspec_head_rows* rows, float* logits,
                                   cpspec_stream stream) {
    constexpr const char* kName = "cpspec_grouped_heads";
    begin_operation();
    CPSPEC_CHECK(check_heads_on_device(kName, heads, rows, logits));
    return launch_heads(kName, *heads, *rows, logits, RowFollowUp{}, stream);
}

cpspec_status cpspec_draft(const cpspec_heads* heads, const cpspec_head_rows* rows, const cpspec_filter_rows* filters,
                           const cpspec_noise_rows* noise, float* logits, uint32_t* arrivals, float* probabilities,
                           int64_t* codes, int32_t* errors, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_draft";
    begin_operation();
    CPSPEC_CHECK(check_heads_on_device(kName, heads, rows, logits));
    RowFollowUp next{{}, {}, arrivals, RowOutput{probabilities, codes, errors}};
    if (rows->count == 0) return check_vocabulary(kName, heads->vocabulary);
    CPSPEC_CHECK(check_follow_up(kName, *heads, filters, next));
    CPSPEC_CHECK(check_noise(kName, noise));
    CPSPEC_CHECK(check_pointers(kName, {{"codes", codes}}));
    next.filters = *filters;
    next.noise = *noise;
    return launch_heads(kName, *heads, *rows, logits, next, stream);
}

cpspec_status cpspec_score(const cpspec_heads* heads, const cpspec_head_rows* rows, const cpspec_filter_rows* filters,
                           float* logits, uint32_t* arrivals, float* probabilities, int32_t* errors,
                           cpspec_stream stream) {
    constexpr const char* kName = "cpspec_score";
    begin_operation();
    CPSPEC_CHECK(check_heads_on_device(kName, heads, rows, logits));
    RowFollowUp next{{}, {}, arrivals, RowOutput{probabilities, nullptr, errors}};
    if (rows->count == 0) return check_vocabulary(kName, heads->vocabulary);
    CPSPEC_CHECK(check_follow_up(kName, *heads, filters, next));
    next.filters = *filters;
    return launch_heads(kName, *heads, *rows, logits, next, stream);
}
