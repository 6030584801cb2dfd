// From logits to codes: the filter, argmax, draws, and the sampling of the Talker and the Thinker.
#include "arguments.h"
#include "steps.h"

using namespace cpspec;

namespace {

constexpr int64_t kWidestVocabulary = int64_t(1) << 22;  // the mass of a row fits 63 bits (core/filter.h)

cpspec_status check_logits(const char* operation, const void* logits, int dtype, int64_t rows, const int32_t* errors) {
    CPSPEC_CHECK(check_dtype(operation, "dtype", dtype));
    CPSPEC_CHECK(check_size(operation, "rows", rows, 0));
    if (rows == 0) return CPSPEC_OK;
    return check_pointers(operation, {{"logits", logits}, {"errors", errors}});
}

}  // namespace

cpspec_status cpspec_filter(const void* logits, cpspec_dtype dtype, int64_t rows, int64_t vocabulary,
                            const cpspec_filter_rows* filters, float* probabilities, int32_t* errors, cpspec_stream) {
    constexpr const char* kName = "cpspec_filter";
    begin_operation();
    CPSPEC_CHECK(check_logits(kName, logits, dtype, rows, errors));
    CPSPEC_CHECK(check_vocabulary(kName, vocabulary));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_filters(kName, filters));
    CPSPEC_CHECK(check_pointers(kName, {{"probabilities", probabilities}}));
    StackScratch stack;
    const RowScratch scratch = stack.row();
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = float_row(logits, dtype, r, vocabulary, scratch);
        Survivors survivors;
        errors[r] = filter_dense(row, vocabulary, filter_of(filters, r), scratch, probabilities + r * vocabulary,
                                 &survivors);
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_argmax(const void* logits, cpspec_dtype dtype, int64_t rows, int64_t vocabulary, int64_t* codes,
                            int32_t* errors, float* margins, cpspec_stream) {
    constexpr const char* kName = "cpspec_argmax";
    begin_operation();
    CPSPEC_CHECK(check_logits(kName, logits, dtype, rows, errors));
    CPSPEC_CHECK(check_size(kName, "vocabulary", vocabulary, 1));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"codes", codes}}));
    for (int64_t r = 0; r < rows; ++r) {
        errors[r] = level().argmax(logits, dtype, r * vocabulary, vocabulary, &codes[r],
                                   margins ? margins + r : nullptr);
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_draw(const float* probabilities, int64_t rows, int64_t vocabulary, const cpspec_noise_rows* noise,
                          int64_t* codes, cpspec_stream) {
    constexpr const char* kName = "cpspec_draw";
    begin_operation();
    CPSPEC_CHECK(check_size(kName, "rows", rows, 0));
    CPSPEC_CHECK(check_vocabulary(kName, vocabulary));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"probabilities", probabilities}, {"codes", codes}}));
    CPSPEC_CHECK(check_noise(kName, noise));
    StackScratch stack;
    const RowScratch scratch = stack.row();
    for (int64_t r = 0; r < rows; ++r) {
        const Survivors support = level().support(probabilities + r * vocabulary, vocabulary, scratch);
        codes[r] = level().race(support, noise_of(noise, r), scratch);
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_draw_talker(const void* logits, cpspec_dtype dtype, int64_t rows, int64_t vocabulary,
                                 const uint8_t* seen, const float* penalty, const uint8_t* suppressed, int64_t eos,
                                 const uint8_t* ban_eos, const cpspec_filter_rows* filters, const uint64_t* seeds,
                                 const uint32_t* frames, float* probabilities, int64_t* codes, int32_t* errors,
                                 cpspec_stream) {
    constexpr const char* kName = "cpspec_draw_talker";
    begin_operation();
    CPSPEC_CHECK(check_logits(kName, logits, dtype, rows, errors));
    CPSPEC_CHECK(check_vocabulary(kName, vocabulary));
    CPSPEC_CHECK(check_index(kName, "eos", eos, vocabulary));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_filters(kName, filters));
    CPSPEC_CHECK(check_pointers(kName, {{"seen", seen}, {"penalty", penalty}, {"suppressed", suppressed}}));
    CPSPEC_CHECK(check_pointers(kName, {{"ban_eos", ban_eos}, {"seeds", seeds}, {"frames", frames}}));
    CPSPEC_CHECK(check_pointers(kName, {{"probabilities", probabilities}, {"codes", codes}}));
    StackScratch stack;
    const RowScratch scratch = stack.row();
    const uint32_t stream = stream_word(kTalkerNoise, 0);
    for (int64_t r = 0; r < rows; ++r) {
        level().widen(logits, dtype, r * vocabulary, vocabulary, scratch.logits);
        const TalkerRow talker{seen + r * vocabulary, suppressed, penalty[r], ban_eos[r] ? eos : -1};
        level().process(scratch.logits, vocabulary, talker);
        errors[r] = filter_and_draw(scratch.logits, vocabulary, filter_of(filters, r),
                                    Noise{seeds[r], stream, frames[r]}, scratch, probabilities + r * vocabulary,
                                    &codes[r]);
    }
    return CPSPEC_OK;
}

size_t cpspec_sample_workspace_bytes(int64_t rows, int64_t vocabulary) {
    if (rows < 0 || vocabulary < 1 || vocabulary > kWidestVocabulary) return 0;
    return scratch_bytes(vocabulary);  // one row at a time
}

cpspec_status cpspec_sample(const void* logits, cpspec_dtype dtype, int64_t rows, int64_t vocabulary,
                            const cpspec_filter_rows* filters, const cpspec_noise_rows* noise, float* probabilities,
                            int64_t* codes, int32_t* errors, void* workspace, size_t workspace_bytes, cpspec_stream) {
    constexpr const char* kName = "cpspec_sample";
    begin_operation();
    CPSPEC_CHECK(check_logits(kName, logits, dtype, rows, errors));
    CPSPEC_CHECK(check_size(kName, "vocabulary", vocabulary, 1));
    if (vocabulary > kWidestVocabulary) {
        return fail(CPSPEC_UNSUPPORTED, "%s: the vocabulary has more than %lld words", kName,
                    static_cast<long long>(kWidestVocabulary));
    }
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_filters(kName, filters));
    CPSPEC_CHECK(check_noise(kName, noise));
    CPSPEC_CHECK(check_pointers(kName, {{"codes", codes}, {"workspace", workspace}}));
    if (workspace_bytes < cpspec_sample_workspace_bytes(rows, vocabulary)) {
        return fail(CPSPEC_INVALID_ARGUMENT, "%s: the workspace has %zu bytes, %zu are needed", kName, workspace_bytes,
                    cpspec_sample_workspace_bytes(rows, vocabulary));
    }
    const RowScratch scratch = carve(workspace, vocabulary);
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = float_row(logits, dtype, r, vocabulary, scratch);
        float* dense = probabilities ? probabilities + r * vocabulary : nullptr;
        errors[r] = filter_and_draw(row, vocabulary, filter_of(filters, r), noise_of(noise, r), scratch, dense,
                                    &codes[r]);
    }
    return CPSPEC_OK;
}
