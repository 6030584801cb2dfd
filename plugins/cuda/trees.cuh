// Trees of drafts: the candidates they are made of, and the walk down one.
#pragma once

#include "rules.cuh"

namespace cpspec {

// One block per row: the scores of the race lie in shared memory, and the best of those left is taken again and again.
__global__ void __launch_bounds__(kMaxBlockThreads)
draw_candidate_rows(const float* probabilities, int vocabulary, const int64_t* widths, int64_t most,
                    cpspec_noise_rows noise, int64_t* candidates) {
    CPSPEC_SHARED(BlockScratch, scratch);
    CPSPEC_DYNAMIC_SHARED(uint32_t, scores);  // the upper halves of contenders, 0 where there is none
    const int64_t row = blockIdx.x;
    const PlainLogits<float> law{probabilities + row * vocabulary};
    const Noise own_noise = noise_of(noise, row);
    for (int i = int(threadIdx.x); i < vocabulary; i += int(blockDim.x)) scores[i] = 0;
    __syncthreads();
    race_share(law, vocabulary, own_noise, [&](uint64_t own) { scores[winner_of(own)] = uint32_t(own >> 32); });
    __syncthreads();
    const int64_t width = widths[row];
    for (int64_t found = 0; found < most; ++found) {
        uint64_t best = 0;
        if (found < width) {
            for (int i = int(threadIdx.x); i < vocabulary; i += int(blockDim.x))
                if (scores[i]) best = Largest()(best, uint64_t(scores[i]) << 32 | uint32_t(~uint32_t(i)));
            best = block_reduce(best, Largest(), scratch);
        }
        const int64_t winner = winner_of(best);
        if (threadIdx.x == 0) candidates[row * most + found] = winner;
        // By the thread that reads it next, so that no barrier is needed.
        if (winner >= 0 && winner % blockDim.x == threadIdx.x) scores[winner] = 0;
    }
}

struct Walk {
    const float* target;  // [sum(nodes), vocabulary]
    int vocabulary;
    const int64_t* last;
    const uint64_t* seeds;
    const uint32_t* frames;
    const float* margins;  // [sum(nodes)] or null
    float tolerance;
    int64_t most;
    int64_t* path;          // [A, most]
    int64_t* path_lengths;  // [A]
    int64_t* codes;         // [A, most]
};

// The child of `node` that holds `code`, 0 where there is none: the lowest, should several hold it.
__device__ inline int64_t child_with(const int64_t* parents, const int64_t* codes, int64_t nodes, int64_t node,
                                     int64_t code, BlockScratch& scratch) {
    uint64_t nearest_end = 0;  // distance from `nodes`
    for (int64_t child = node + 1 + threadIdx.x; child < nodes; child += blockDim.x) {
        if (parents[child] != node || codes[child] != code) continue;
        nearest_end = uint64_t(nodes - child);
        break;
    }
    nearest_end = block_reduce(nearest_end, Largest(), scratch);
    return nearest_end ? nodes - int64_t(nearest_end) : 0;
}

// One block per sequence.
__global__ void __launch_bounds__(kMaxBlockThreads) walk_trees(Walk walk, cpspec_trees trees) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t a = blockIdx.x, first = first_node(trees, a, scratch), nodes = node_count(trees, a);
    const float* target = walk.target + first * walk.vocabulary;
    const float* margins = walk.margins ? walk.margins + first : nullptr;
    int64_t* path = walk.path + a * walk.most;
    int64_t* codes = walk.codes + a * walk.most;
    int64_t visited = 0;
    for (int64_t node = 0; visited < walk.most && node < nodes;) {
        const Noise noise{walk.seeds[a], stream_word(kTargetNoise, uint32_t(walk.last[a] + 1 + visited)),
                          walk.frames[a]};
        int64_t code = coupled_code(target + node * walk.vocabulary, walk.vocabulary, noise, walk.tolerance, scratch);
        if (margins && code >= 0 && is_guarded(margins[node], walk.tolerance)) code = kGuarded;
        if (threadIdx.x == 0) {
            path[visited] = node;
            codes[visited] = code;
        }
        ++visited;
        if (code < 0) break;
        node = child_with(trees.parents + first, trees.codes + first, nodes, node, code, scratch);
        if (node == 0) break;
    }
    for (int64_t i = visited + threadIdx.x; i < walk.most; i += blockDim.x) path[i] = codes[i] = -1;
    if (threadIdx.x == 0) walk.path_lengths[a] = visited;
}

}  // namespace cpspec
