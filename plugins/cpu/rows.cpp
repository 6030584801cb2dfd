// Moving rows: codec embeddings, what a verify pass is fed, and the KV rows of an accepted path.
#include <cstring>

#include "../core/narrow.h"
#include "tables.h"

using namespace cpspec;

namespace {

template <class Element>
void sum_rows(const cpspec_tables& tables, const int64_t* codes, float* sum) {
    const Element* first = reinterpret_cast<const Element*>(table_row(tables, 0, codes[0]));
    for (int64_t i = 0; i < tables.width; ++i) sum[i] = widen(first[i]);
    for (int64_t g = 1; g < tables.count; ++g) {
        const Element* row = reinterpret_cast<const Element*>(table_row(tables, g, codes[g]));
        for (int64_t i = 0; i < tables.width; ++i) sum[i] += widen(row[i]);
    }
}

}  // namespace

cpspec_status cpspec_gather_codec_embeddings(const cpspec_tables* tables, const int64_t* table_ids,
                                             const int64_t* codes, int64_t rows, void* out, cpspec_stream) {
    constexpr const char* kName = "cpspec_gather_codec_embeddings";
    begin_operation();
    CPSPEC_CHECK(check_tables(kName, tables));
    CPSPEC_CHECK(check_size(kName, "rows", rows, 0));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"table_ids", table_ids}, {"codes", codes}, {"out", out}}));
    const size_t bytes = size_t(tables->width) * element_bytes(tables->dtype);
    for (int64_t r = 0; r < rows; ++r) {
        CPSPEC_CHECK(check_code(kName, *tables, table_ids[r], codes[r]));
        std::memcpy(static_cast<char*>(out) + size_t(r) * bytes, table_row(*tables, table_ids[r], codes[r]), bytes);
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_sum_codec_embeddings(const cpspec_tables* tables, const int64_t* codes, int64_t batch,
                                          float* feedback, cpspec_stream) {
    constexpr const char* kName = "cpspec_sum_codec_embeddings";
    begin_operation();
    CPSPEC_CHECK(check_tables(kName, tables));
    CPSPEC_CHECK(check_size(kName, "batch", batch, 0));
    if (batch == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"codes", codes}, {"feedback", feedback}}));
    for (int64_t b = 0; b < batch; ++b) {
        const int64_t* own = codes + b * tables->count;
        float* sum = feedback + b * tables->width;
        for (int64_t g = 0; g < tables->count; ++g) CPSPEC_CHECK(check_code(kName, *tables, g, own[g]));
        switch (tables->dtype) {
            case CPSPEC_FLOAT32: sum_rows<float>(*tables, own, sum); break;
            case CPSPEC_FLOAT16: sum_rows<Float16>(*tables, own, sum); break;
            case CPSPEC_BFLOAT16: sum_rows<BFloat16>(*tables, own, sum); break;
        }
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_build_verify_input(const cpspec_frame_state* state, const cpspec_drafts* drafts,
                                        const cpspec_tables* tables, int64_t positions, int64_t* fed, void* embeddings,
                                        cpspec_stream) {
    constexpr const char* kName = "cpspec_build_verify_input";
    begin_operation();
    CPSPEC_CHECK(check_state(kName, state));
    CPSPEC_CHECK(check_tables(kName, tables));
    CPSPEC_CHECK(check_size(kName, "positions", positions, 1));
    int64_t total = 0;
    CPSPEC_CHECK(check_drafts(kName, drafts, INT64_MAX, &total));
    CPSPEC_CHECK(check_rows(kName, drafts, state));
    if (state->batch == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"state->codes", state->codes}, {"embeddings", embeddings}}));

    const size_t bytes = size_t(tables->width) * element_bytes(tables->dtype);
    const size_t slots = size_t(state->batch * positions);
    std::memset(embeddings, 0, slots * bytes);
    if (fed) std::memset(fed, 0, slots * sizeof(int64_t));
    const int64_t* draft = drafts->codes;
    for (int64_t a = 0; a < drafts->sequences; ++a) {
        const int64_t row = drafts->rows[a], last = state->last[row];
        CPSPEC_CHECK(check_size(kName, "positions", positions, drafts->counts[a] + 1));
        for (int64_t t = 0; t <= drafts->counts[a]; ++t) {
            const int64_t code = t == 0 ? state->codes[row * state->groups + last] : draft[t - 1];
            CPSPEC_CHECK(check_code(kName, *tables, last + t, code));
            const int64_t slot = row * positions + t;
            std::memcpy(static_cast<char*>(embeddings) + size_t(slot) * bytes, table_row(*tables, last + t, code),
                        bytes);
            if (fed) fed[slot] = code;
        }
        draft += drafts->counts[a];
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_copy_accepted_rows(void* const* caches, int64_t cache_count, cpspec_dtype dtype, int64_t batch,
                                        int64_t heads, int64_t capacity, int64_t head_size, const int64_t* rows,
                                        const int64_t* counts, const int64_t* first, int64_t sequences,
                                        const int64_t* sources, cpspec_stream) {
    constexpr const char* kName = "cpspec_copy_accepted_rows";
    begin_operation();
    CPSPEC_CHECK(check_dtype(kName, "dtype", dtype));
    CPSPEC_CHECK(check_size(kName, "cache_count", cache_count, 0));
    CPSPEC_CHECK(check_size(kName, "heads", heads, 1));
    CPSPEC_CHECK(check_size(kName, "capacity", capacity, 1));
    CPSPEC_CHECK(check_size(kName, "head_size", head_size, 1));
    CPSPEC_CHECK(check_size(kName, "sequences", sequences, 0));
    if (cache_count == 0 || sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"caches", caches}, {"rows", rows}, {"counts", counts}}));
    int64_t total = 0;
    CPSPEC_CHECK(check_counts(kName, "counts", counts, sequences, capacity + 1, &total));
    if (total == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"first", first}, {"sources", sources}}));
    for (int64_t a = 0; a < sequences; ++a) CPSPEC_CHECK(check_index(kName, "rows", rows[a], batch));
    const size_t bytes = size_t(head_size) * element_bytes(dtype);
    for (int64_t a = 0; a < sequences; ++a) {
        for (int64_t i = 0; i < counts[a]; ++i) {
            if (sources[i] == -1) continue;
            CPSPEC_CHECK(check_index(kName, "sources", sources[i], capacity));
            CPSPEC_CHECK(check_index(kName, "first", first[a] + i, sources[i] + 1));
        }
        for (int64_t block = 0; block < cache_count * heads; ++block) {
            char* cache = static_cast<char*>(caches[block / heads]) +
                          size_t((rows[a] * heads + block % heads) * capacity) * bytes;
            for (int64_t i = 0; i < counts[a]; ++i) {
                if (sources[i] == -1) continue;
                std::memmove(cache + size_t(first[a] + i) * bytes, cache + size_t(sources[i]) * bytes, bytes);
            }
        }
        sources += counts[a];
    }
    return CPSPEC_OK;
}
