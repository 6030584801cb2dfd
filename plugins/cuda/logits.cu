// Launchers over independent rows of logits: filter, argmax, draw, the Talker's draw.
#include "arguments.h"
#include "logits.cuh"

using namespace cpspec;

cpspec_status cpspec_filter(const void* logits, cpspec_dtype dtype, int64_t rows, int64_t vocabulary,
                            const cpspec_filter_rows* filters, float* probabilities, int32_t* errors,
                            cpspec_stream stream) {
    constexpr const char* kName = "cpspec_filter";
    begin_operation();
    CPSPEC_CHECK(check_logits(kName, logits, dtype, rows, vocabulary, errors));
    CPSPEC_CHECK(check_vocabulary(kName, vocabulary));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_filters(kName, filters));
    CPSPEC_CHECK(check_pointers(kName, {{"probabilities", probabilities}}));
    return with_element(dtype, [&](auto element) {
        using Element = decltype(element);
        return enqueue({kName, rows, row_bytes(vocabulary), stream}, filter_rows<Element>,
                       static_cast<const Element*>(logits), int(vocabulary), *filters,
                       RowOutput{probabilities, nullptr, errors});
    });
}

cpspec_status cpspec_argmax(const void* logits, cpspec_dtype dtype, int64_t rows, int64_t vocabulary, int64_t* codes,
                            int32_t* errors, float* margins, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_argmax";
    begin_operation();
    CPSPEC_CHECK(check_logits(kName, logits, dtype, rows, vocabulary, errors));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"codes", codes}}));
    return with_element(dtype, [&](auto element) {
        using Element = decltype(element);
        return enqueue({kName, rows, 0, stream}, argmax_rows<Element>, static_cast<const Element*>(logits), vocabulary,
                       codes, errors, margins);
    });
}

cpspec_status cpspec_draw(const float* probabilities, int64_t rows, int64_t vocabulary, const cpspec_noise_rows* noise,
                          int64_t* codes, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_draw";
    begin_operation();
    CPSPEC_CHECK(check_size(kName, "rows", rows, 0));
    CPSPEC_CHECK(check_vocabulary(kName, vocabulary));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"probabilities", probabilities}, {"codes", codes}}));
    CPSPEC_CHECK(check_noise(kName, noise));
    return enqueue({kName, rows, 0, stream}, draw_rows, probabilities, int(vocabulary), *noise, codes);
}

cpspec_status cpspec_draw_talker(const void* logits, cpspec_dtype dtype, int64_t rows, int64_t vocabulary,
                                 const uint8_t* seen, const float* penalty, const uint8_t* suppressed, int64_t eos,
                                 const uint8_t* ban_eos, const cpspec_filter_rows* filters, const uint64_t* seeds,
                                 const uint32_t* frames, float* probabilities, int64_t* codes, int32_t* errors,
                                 cpspec_stream stream) {
    constexpr const char* kName = "cpspec_draw_talker";
    begin_operation();
    CPSPEC_CHECK(check_logits(kName, logits, dtype, rows, vocabulary, errors));
    CPSPEC_CHECK(check_vocabulary(kName, vocabulary));
    CPSPEC_CHECK(check_index(kName, "eos", eos, vocabulary));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_filters(kName, filters));
    CPSPEC_CHECK(check_pointers(kName, {{"seen", seen}, {"penalty", penalty}, {"suppressed", suppressed}}));
    CPSPEC_CHECK(check_pointers(kName, {{"ban_eos", ban_eos}, {"seeds", seeds}, {"frames", frames}}));
    CPSPEC_CHECK(check_pointers(kName, {{"probabilities", probabilities}, {"codes", codes}}));
    const TalkerRows talker{seen, penalty, suppressed, eos, ban_eos, seeds, frames};
    return with_element(dtype, [&](auto element) {
        using Element = decltype(element);
        return enqueue({kName, rows, row_bytes(vocabulary), stream}, draw_talker_rows<Element>,
                       static_cast<const Element*>(logits), int(vocabulary), talker, *filters,
                       RowOutput{probabilities, codes, errors});
    });
}
