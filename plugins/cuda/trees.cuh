// Trees of drafts: the candidates they are made of, the walk down one, and the commit of its path.
#pragma once

#include "commit.cuh"
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

// What decides along the walks of a call.
struct Forest {
    const float* target;  // [sum(nodes), vocabulary]
    int vocabulary;
    const uint64_t* seeds;
    const uint32_t* frames;
    const float* margins;     // [sum(nodes)] or null
    const float* tolerances;  // [A] or null
    int64_t most;
};

// The child of `node` that holds `code`, 0 where there is none: the lowest, should several hold it. The sequence's
// nodes begin at `first`.
__device__ inline int64_t child_with(const cpspec_trees& trees, int64_t first, int64_t nodes, int64_t node,
                                     int64_t code, BlockScratch& scratch) {
    uint64_t nearest_end = 0;  // distance from `nodes`
    for (int64_t child = node + 1 + threadIdx.x; child < nodes; child += blockDim.x) {
        if (trees.parents[first + child] != node || code_of_node(trees, first + child) != code) continue;
        nearest_end = uint64_t(nodes - child);
        break;
    }
    nearest_end = block_reduce(nearest_end, Largest(), scratch);
    return nearest_end ? nodes - int64_t(nearest_end) : 0;
}

// What a walk came to, known to every thread.
struct Walked {
    int64_t visited;  // 0 where the sequence has no nodes
    int64_t code;     // what the last of them decided, or what stands for none
    int64_t final;    // the last that decided a code: of all visited, or of those before a guarded one
};

// Thread 0 tells `visit` of every step: its number, its node, what that decided.
template <class Visit>
__device__ Walked walk_tree(const Forest& forest, const cpspec_trees& trees, int64_t a, int64_t last,
                            BlockScratch& scratch, const Visit& visit) {
    const int64_t first = first_node(trees, a, scratch), nodes = node_count(trees, a);
    const float tolerance = tolerance_of(forest.tolerances, a);
    Walked walked{0, kWithoutMass, 0};
    for (int64_t node = 0; walked.visited < forest.most && node < nodes;) {
        const Noise noise{forest.seeds[a], stream_word(kTargetNoise, uint32_t(last + 1 + walked.visited)),
                          forest.frames[a]};
        const float* target = forest.target + (first + node) * forest.vocabulary;
        int64_t code = coupled_code(target, forest.vocabulary, noise, tolerance, scratch);
        if (forest.margins && code >= 0 && is_guarded(forest.margins[first + node], tolerance)) code = kGuarded;
        if (threadIdx.x == 0) visit(walked.visited, node, code);
        ++walked.visited;
        walked.code = code;
        if (code < 0) break;
        walked.final = node;
        node = child_with(trees, first, nodes, node, code, scratch);
        if (node == 0) break;
    }
    return walked;
}

struct Paths {
    int64_t* nodes;    // [A, most]
    int64_t* lengths;  // [A]
    int64_t* codes;    // [A, most]
};

// One block per sequence.
__global__ void __launch_bounds__(kMaxBlockThreads)
walk_trees(Forest forest, cpspec_trees trees, const int64_t* last, Paths paths) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t a = blockIdx.x;
    int64_t* path = paths.nodes + a * forest.most;
    int64_t* codes = paths.codes + a * forest.most;
    const Walked walked =
        walk_tree(forest, trees, a, last[a], scratch, [=](int64_t step, int64_t node, int64_t code) {
            path[step] = node;
            codes[step] = code;
        });
    for (int64_t i = walked.visited + threadIdx.x; i < forest.most; i += blockDim.x) path[i] = codes[i] = -1;
    if (threadIdx.x == 0) paths.lengths[a] = walked.visited;
}

struct TreeCommit {
    const int64_t* first;  // [A], the KV slot of the root
    int64_t* accepted;     // [A]
    int64_t* commits;      // [batch]
    int64_t* sources;      // [A, most]
};

// Blocks as in accept_and_commit. A code enters the frame only when the walk has ended: until then thread 0, which
// alone writes there, keeps the path in `sources`, and a step's code is that of the node it led to.
__global__ void __launch_bounds__(kMaxBlockThreads)
walk_and_commit(Forest forest, cpspec_trees trees, Verified verified, cpspec_frame_state state, TreeCommit commit) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t a = blockIdx.x;
    if (a == trees.sequences) return commit_nothing(trees.rows, trees.sequences, state.batch, commit.commits);
    int64_t* sources = commit.sources + a * forest.most;
    const int64_t row = trees.rows[a];
    const bool present = in_range(row, state.batch);
    const int64_t last = present ? state.last[row] : 0;
    Walked walked{0, kWithoutMass, 0};
    if (present)
        walked = walk_tree(forest, trees, a, last, scratch,
                           [=](int64_t step, int64_t node, int64_t) { sources[step] = node; });
    int64_t committed = walked.code >= 0 ? walked.visited : walked.code == kGuarded ? walked.visited - 1 : 0;
    const int64_t source = present ? verified.first[a] + walked.final : 0;
    const bool sound = walked.code != kWithoutMass && last >= 0 && last + committed < state.groups &&
                       (committed == 0 || in_range(source, verified.count));
    if (!sound) committed = 0;
    const int64_t begin = first_node(trees, a, scratch);
    if (threadIdx.x == 0) {
        commit.accepted[a] = sound ? walked.visited - 1 : -1;
        if (present) commit.commits[row] = committed;
        for (int64_t step = 0; step < forest.most; ++step) {
            if (step < committed)
                state.codes[row * state.groups + last + 1 + step] =
                    step + 1 < walked.visited ? code_of_node(trees, begin + sources[step + 1]) : walked.code;
            sources[step] = step < committed ? commit.first[a] + sources[step] : -1;
        }
        if (committed) state.last[row] = last + committed;
    }
    if (committed == 0) return;
    const int64_t bytes = state.width * element_bytes(state.dtype);
    copy_bytes(static_cast<char*>(state.context) + row * bytes, verified.hidden + source * bytes, bytes);
}

}  // namespace cpspec
