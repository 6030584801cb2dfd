// Where the slots of a sequence, or the nodes of its tree, lie in a flat ragged batch.
#pragma once

#include "cpspec/kernels.h"
#include "block_ops.cuh"

namespace cpspec {

// How many slots a sequence has. A count that cannot be one, and any where the slots themselves are missing, is 0.
__device__ __forceinline__ int64_t count_of(const int64_t* counts, int64_t sequence, const void* slots, int64_t most) {
    const int64_t count = slots ? counts[sequence] : 0;
    return count >= 0 && count <= most ? count : 0;
}

__device__ __forceinline__ int64_t count_of(const cpspec_drafts& drafts, int64_t sequence) {
    return count_of(drafts.counts, sequence, drafts.codes, CPSPEC_MAX_GROUPS - 1);
}

// The first slot of a sequence: `count(a)` slots belong to each sequence a before it.
template <class Count>
__device__ int64_t begin_of(const Count& count, int64_t sequence, BlockScratch& scratch) {
    uint64_t before = 0;
    for (int64_t a = threadIdx.x; a < sequence; a += blockDim.x) before += uint64_t(count(a));
    return int64_t(block_reduce(before, Sum(), scratch));
}

__device__ inline int64_t begin_of(const cpspec_drafts& drafts, int64_t sequence, BlockScratch& scratch) {
    return begin_of([&](int64_t a) { return count_of(drafts, a); }, sequence, scratch);
}

struct Sequence {
    bool exists;
    int64_t index, begin, count;  // its drafts are the slots [begin, begin + count)
};

// The sequence that stands in a row of the batch, -1 where none does.
__device__ inline int64_t sequence_in_row(const int64_t* rows, int64_t sequences, int64_t row, BlockScratch& scratch) {
    uint64_t found = 0;
    for (int64_t a = threadIdx.x; a < sequences; a += blockDim.x)
        if (rows[a] == row) found = uint64_t(a) + 1;
    return int64_t(block_reduce(found, Largest(), scratch)) - 1;
}

__device__ inline Sequence sequence_of_row(const cpspec_drafts& drafts, int64_t row, BlockScratch& scratch) {
    const int64_t index = sequence_in_row(drafts.rows, drafts.sequences, row, scratch);
    if (index < 0) return {false, 0, 0, 0};
    return {true, index, begin_of(drafts, index, scratch), count_of(drafts, index)};
}

// How many nodes a sequence has; a count that cannot be one is 0.
__device__ __forceinline__ int64_t node_count(const cpspec_trees& trees, int64_t sequence) {
    return count_of(trees.nodes, sequence, trees.codes, CPSPEC_MAX_TREE_NODES);
}

// The code of node `node` of all, -1 where it does not exist.
__device__ __forceinline__ int64_t code_of_node(const cpspec_trees& trees, int64_t node) {
    if (!trees.places) return trees.codes[node];
    const int64_t place = trees.places[node];
    return place < 0 ? -1 : trees.codes[place];
}

// Where a sequence's nodes begin.
__device__ inline int64_t first_node(const cpspec_trees& trees, int64_t sequence, BlockScratch& scratch) {
    return begin_of([&](int64_t a) { return node_count(trees, a); }, sequence, scratch);
}

}  // namespace cpspec
