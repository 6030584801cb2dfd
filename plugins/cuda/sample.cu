// Launcher of the draw over a large vocabulary, and the layout of its workspace.
#include "arguments.h"
#include "sample.cuh"

using namespace cpspec;

namespace {

constexpr int64_t kWidestVocabulary = int64_t(1) << 22;  // the mass of a row fits 63 bits (core/filter.h)

int64_t tiles_of(int64_t vocabulary) { return (vocabulary + kTileWords - 1) / kTileWords; }

size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

size_t row_states(int64_t rows) { return aligned(size_t(rows) * sizeof(SampleRow)); }
size_t histograms(int64_t rows) { return size_t(rows) * kBins * sizeof(unsigned long long); }
size_t tied_counts(int64_t rows, int64_t vocabulary) {
    return aligned(size_t(rows) * size_t(tiles_of(vocabulary)) * sizeof(uint32_t));
}

Workspace carve(void* workspace, int64_t rows) {
    char* next = static_cast<char*>(workspace);
    SampleRow* states = reinterpret_cast<SampleRow*>(next);
    next += row_states(rows);
    unsigned long long* histogram = reinterpret_cast<unsigned long long*>(next);
    return {states, histogram, reinterpret_cast<uint32_t*>(next + histograms(rows))};
}

template <class Element>
cpspec_status launch_all(const char* operation, const SampleJob<Element>& job, int64_t rows, cpspec_stream stream) {
    const Launch launch{operation, rows * job.tiles, 0, stream};
    CPSPEC_CHECK(enqueue(launch, find_extremes<Element>, job));
    for (int digit = 0; digit < kDigits; ++digit) CPSPEC_CHECK(enqueue(launch, count_digit<Element>, job, digit));
    for (int digit = 0; digit < kDigits; ++digit) CPSPEC_CHECK(enqueue(launch, weigh_digit<Element>, job, digit));
    CPSPEC_CHECK(enqueue(launch, find_last_tied<Element>, job));
    return enqueue(launch, draw_tile<Element>, job);
}

}  // namespace

size_t cpspec_sample_workspace_bytes(int64_t rows, int64_t vocabulary) {
    if (rows < 0 || vocabulary < 1 || vocabulary > kWidestVocabulary) return 0;
    return row_states(rows) + histograms(rows) + tied_counts(rows, vocabulary);
}

cpspec_status cpspec_sample(const void* logits, cpspec_dtype dtype, int64_t rows, int64_t vocabulary,
                            const cpspec_filter_rows* filters, const cpspec_noise_rows* noise, float* probabilities,
                            int64_t* codes, int32_t* errors, void* workspace, size_t workspace_bytes,
                            cpspec_stream stream) {
    constexpr const char* kName = "cpspec_sample";
    begin_operation();
    CPSPEC_CHECK(check_logits(kName, logits, dtype, rows, vocabulary, errors));
    if (vocabulary > kWidestVocabulary)
        return fail(CPSPEC_UNSUPPORTED, "%s: the vocabulary has more than %lld words", kName,
                    static_cast<long long>(kWidestVocabulary));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_filters(kName, filters));
    CPSPEC_CHECK(check_noise(kName, noise));
    CPSPEC_CHECK(check_pointers(kName, {{"codes", codes}, {"workspace", workspace}}));
    const size_t needed = cpspec_sample_workspace_bytes(rows, vocabulary);
    if (workspace_bytes < needed)
        return fail(CPSPEC_INVALID_ARGUMENT, "%s: the workspace has %zu bytes, %zu are needed", kName, workspace_bytes,
                    needed);
    CPSPEC_CHECK(clear(kName, workspace, needed, stream));
    return with_element(dtype, [&](auto element) {
        using Element = decltype(element);
        const SampleJob<Element> job{static_cast<const Element*>(logits), int(vocabulary),
                                     uint32_t(tiles_of(vocabulary)),      *filters,
                                     *noise,                              {probabilities, codes, errors},
                                     carve(workspace, rows)};
        return launch_all(kName, job, rows, stream);
    });
}
