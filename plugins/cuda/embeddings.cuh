// Codec embeddings: rows gathered by (table, code), what a verify pass is fed, and the sum that feeds the Talker.
#pragma once

#include "../core/narrow.h"
#include "copy.cuh"
#include "drafts.cuh"

namespace cpspec {

// Row `code` of table `table`, null where there is none.
__device__ __forceinline__ const void* embedding_of(const cpspec_tables& tables, int64_t table, int64_t code) {
    if (!in_range(table, tables.count) || !in_range(code, tables.rows[table])) return nullptr;
    return static_cast<const char*>(tables.tables[table]) + code * tables.width * element_bytes(tables.dtype);
}

// One block per row.
__global__ void __launch_bounds__(kMaxBlockThreads)
gather_rows(cpspec_tables tables, const int64_t* table_ids, const int64_t* codes, char* out) {
    const int64_t row = blockIdx.x, bytes = tables.width * element_bytes(tables.dtype);
    copy_bytes(out + row * bytes, embedding_of(tables, table_ids[row], codes[row]), bytes);
}

// One block per row of the batch and position t, which holds c_(m+t): the last committed code, then the drafts.
__global__ void __launch_bounds__(kMaxBlockThreads)
build_verify_rows(cpspec_frame_state state, cpspec_drafts drafts, cpspec_tables tables, int64_t positions, int64_t* fed,
                  char* embeddings) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t row = blockIdx.x / positions, position = blockIdx.x % positions;
    const Sequence sequence = sequence_of_row(drafts, row, scratch);
    const void* embedding = nullptr;
    int64_t code = 0;
    if (sequence.exists && position <= sequence.count) {
        const int64_t last = state.last[row];
        if (position > 0)
            code = drafts.codes[sequence.begin + position - 1];
        else
            code = in_range(last, state.groups) ? state.codes[row * state.groups + last] : -1;
        embedding = embedding_of(tables, last + position, code);
    }
    const int64_t bytes = tables.width * element_bytes(tables.dtype);
    copy_bytes(embeddings + int64_t(blockIdx.x) * bytes, embedding, bytes);
    if (fed && threadIdx.x == 0) fed[blockIdx.x] = embedding ? code : 0;
}

// Depth of a node below the root, -1 where its ancestors do not lead there.
__device__ inline int64_t depth_of_node(const int64_t* parents, int64_t node) {
    int64_t depth = 0;
    while (node > 0) {
        const int64_t parent = parents[node];
        if (!in_range(parent, node)) return -1;
        node = parent;
        ++depth;
    }
    return depth;
}

// One block per row of the batch and position, which holds the node of that number.
__global__ void __launch_bounds__(kMaxBlockThreads)
build_tree_rows(cpspec_frame_state state, cpspec_trees trees, cpspec_tables tables, int64_t positions, int64_t* fed,
                char* embeddings) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t row = blockIdx.x / positions, node = blockIdx.x % positions;
    const int64_t a = sequence_in_row(trees.rows, trees.sequences, row, scratch);
    const void* embedding = nullptr;
    int64_t code = 0;
    const int64_t first = a < 0 ? 0 : first_node(trees, a, scratch);
    if (a >= 0 && node < node_count(trees, a)) {
        const int64_t last = state.last[row], depth = depth_of_node(trees.parents + first, node);
        if (node > 0)
            code = code_of_node(trees, first + node);
        else
            code = in_range(last, state.groups) ? state.codes[row * state.groups + last] : -1;
        if (depth >= 0) embedding = embedding_of(tables, last + depth, code);
    }
    const int64_t bytes = tables.width * element_bytes(tables.dtype);
    copy_bytes(embeddings + int64_t(blockIdx.x) * bytes, embedding, bytes);
    if (fed && threadIdx.x == 0) fed[blockIdx.x] = embedding ? code : 0;
}

// One block per row of the batch and piece of its width; summed in float32, in the order of the tables.
template <class Element>
__global__ void __launch_bounds__(kMaxBlockThreads)
sum_rows(cpspec_tables tables, const int64_t* codes, int64_t pieces, float* feedback) {
    const int64_t row = blockIdx.x / pieces;
    const int64_t column = blockIdx.x % pieces * blockDim.x + threadIdx.x;
    if (column >= tables.width) return;
    float sum = 0.0f;
    bool started = false;
    for (int64_t table = 0; table < tables.count; ++table) {
        const void* embedding = embedding_of(tables, table, codes[row * tables.count + table]);
        if (!embedding) continue;
        const float value = widen(static_cast<const Element*>(embedding)[column]);
        sum = started ? sum + value : value;
        started = true;
    }
    feedback[row * tables.width + column] = sum;
}

}  // namespace cpspec
