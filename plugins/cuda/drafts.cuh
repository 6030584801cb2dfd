// Where the slots of a sequence lie in a flat ragged batch.
#pragma once

#include "cpspec/kernels.h"
#include "block_ops.cuh"

namespace cpspec {

struct Sequence {
    bool exists;
    int64_t index, begin, count;  // its drafts are the slots [begin, begin + count)
};

__device__ inline int64_t begin_of(const int64_t* counts, int64_t sequence, BlockScratch& scratch) {
    uint64_t before = 0;
    for (int64_t a = threadIdx.x; a < sequence; a += blockDim.x) before += uint64_t(counts[a]);
    return int64_t(block_reduce(before, Sum(), scratch));
}

// The sequence that stands in a row of the batch.
__device__ inline Sequence sequence_of_row(const cpspec_drafts& drafts, int64_t row, BlockScratch& scratch) {
    uint64_t found = 0;
    for (int64_t a = threadIdx.x; a < drafts.sequences; a += blockDim.x)
        if (drafts.rows[a] == row) found = uint64_t(a) + 1;
    found = block_reduce(found, Largest(), scratch);
    if (!found) return {false, 0, 0, 0};
    const int64_t index = int64_t(found) - 1;
    return {true, index, begin_of(drafts.counts, index, scratch), drafts.counts[index]};
}

}  // namespace cpspec
