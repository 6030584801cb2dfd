// The KV rows of an accepted path, brought together in every cache.
#pragma once

#include "copy.cuh"
#include "drafts.cuh"

namespace cpspec {

struct CacheRows {
    void* const* caches;  // [cache_count] pointers to [batch, heads, capacity, head_size]
    cpspec_dtype dtype;
    int64_t batch, heads, capacity, head_size;
    const int64_t* rows;     // [A]
    const int64_t* counts;   // [A]
    const int64_t* first;    // [A]
    const int64_t* sources;  // [sum(counts)]
    int64_t sequences;
};

// One block per cache, sequence and head. Every thread moves its own columns, row after row, so a row is read before a
// later one is written over it.
__global__ void __launch_bounds__(kMaxBlockThreads) copy_cache_rows(CacheRows job) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t head = blockIdx.x % job.heads, a = blockIdx.x / job.heads % job.sequences;
    const auto count = [&](int64_t each) { return count_of(job.counts, each, job.sources, job.capacity); };
    const int64_t begin = begin_of(count, a, scratch), own = count(a), row = job.rows[a];
    if (!in_range(row, job.batch)) return;
    const int64_t bytes = job.head_size * element_bytes(job.dtype);
    char* slots = static_cast<char*>(job.caches[blockIdx.x / (job.heads * job.sequences)]) +
                  (row * job.heads + head) * job.capacity * bytes;
    const int64_t unit = copy_unit(slots, slots, bytes);
    for (int64_t column = threadIdx.x; column < bytes / unit; column += blockDim.x) {
        for (int64_t i = 0; i < own; ++i) {
            const int64_t from = job.sources[begin + i], to = job.first[a] + i;
            if (in_range(from, job.capacity) && in_range(to, job.capacity))
                copy_one(slots + to * bytes, slots + from * bytes, unit, column);
        }
    }
}

}  // namespace cpspec
