// Acceptance of drafts, one block per sequence, and the commit of what was accepted.
#pragma once

#include "../core/accept.h"
#include "copy.cuh"
#include "drafts.cuh"
#include "row.cuh"

namespace cpspec {

// How many slots from the front stand: the first for which `stands` fails, or `count`.
template <class Stands>
__device__ int64_t leading(const Stands& stands, int64_t count, BlockScratch& scratch) {
    uint64_t nearest_end = 0;  // distance of the first failing slot from `count`
    for (int64_t slot = threadIdx.x; slot < count; slot += blockDim.x) {
        if (stands(slot)) continue;
        nearest_end = uint64_t(count - slot);
        break;
    }
    return count - int64_t(block_reduce(nearest_end, Largest(), scratch));
}

struct EqualsTarget {
    const int64_t* targets;
    const int64_t* drafts;
    __device__ bool operator()(int64_t slot) const { return targets[slot] == drafts[slot]; }
};

__global__ void __launch_bounds__(kMaxBlockThreads)
accept_greedy_sequences(const int64_t* targets, cpspec_drafts drafts, int64_t* accepted, int64_t* codes) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t a = blockIdx.x, begin = begin_of(drafts, a, scratch);
    const int64_t* own_targets = targets + begin + a;  // every earlier sequence has one target more than drafts
    const int64_t stand = leading(EqualsTarget{own_targets, drafts.codes + begin}, count_of(drafts, a), scratch);
    if (threadIdx.x != 0) return;
    accepted[a] = stand;
    codes[a] = own_targets[stand];
}

struct Rejection {
    const float* target;  // [sum(counts + 1), vocabulary]
    const float* draft;   // [sum(counts), vocabulary]
    int vocabulary;
    const uint64_t* seeds;
    const uint32_t* frames;
};

// A draft x stands with probability min(1, p(x) / q(x)). A code out of range has no probability and never stands.
struct SurvivesRejection {
    const float* target;
    const float* draft;
    const int64_t* codes;
    int vocabulary;
    int64_t last;
    Noise noise;
    __device__ bool operator()(int64_t slot) const {
        const int64_t code = codes[slot];
        if (!in_range(code, vocabulary)) return false;
        Noise own = noise;
        own.stream = round_stream_word(kAcceptUniform, uint32_t(last + 1 + slot), uint32_t(last));
        const int64_t at = slot * vocabulary + code;
        return keeps_draft(uniform_of(scalar_word(own)), target[at], draft[at]);
    }
};

// p, or what a rejection leaves of it.
struct FinalLaw {
    const float* target;
    const float* draft;  // null: p itself
    __device__ float at(int i) const { return draft ? residual_of(target[i], draft[i]) : target[i]; }
};

struct Decision {
    int64_t accepted;
    int64_t code;  // -1 where the row that decides has no mass
};

__device__ inline Decision decide(const Rejection& rejection, const cpspec_drafts& drafts, int64_t a, int64_t begin,
                                  int64_t last, BlockScratch& scratch) {
    const int vocabulary = rejection.vocabulary;
    const int64_t count = rejection.draft ? count_of(drafts, a) : 0;
    const float* target = rejection.target + (begin + a) * vocabulary;
    const float* draft = rejection.draft + begin * vocabulary;
    Noise noise{rejection.seeds[a], 0, rejection.frames[a]};
    const SurvivesRejection survives{target, draft, drafts.codes + begin, vocabulary, last, noise};
    const int64_t accepted = leading(survives, count, scratch);

    FinalLaw law{target + accepted * vocabulary, nullptr};
    const uint32_t depth = uint32_t(last + 1 + accepted);
    noise.stream = stream_word(kTargetNoise, depth);
    if (accepted < count) {
        noise.stream = round_stream_word(kResidualNoise, depth, uint32_t(last));
        law.draft = draft + accepted * vocabulary;
        bool has_mass = false;
        for (int i = int(threadIdx.x); i < vocabulary; i += int(blockDim.x)) has_mass |= law.at(i) > 0.0f;
        if (!__syncthreads_or(has_mass)) law.draft = nullptr;  // rounding can leave nothing
    }
    return {accepted, winner_of(race(law, vocabulary, noise, scratch))};
}

__global__ void __launch_bounds__(kMaxBlockThreads)
accept_rejection_sequences(Rejection rejection, cpspec_drafts drafts, const int64_t* last, int64_t* accepted,
                           int64_t* codes) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t a = blockIdx.x;
    const Decision decision = decide(rejection, drafts, a, begin_of(drafts, a, scratch), last[a], scratch);
    if (threadIdx.x != 0) return;
    accepted[a] = decision.accepted;
    codes[a] = decision.code;
}

struct Verified {
    const char* hidden;  // [count, width] in the state's dtype
    int64_t count;
    const int64_t* first;  // [A]
};

// Blocks 0 ... A-1 accept and commit a sequence each; block A tells the rows of the batch without one that nothing was
// committed. A sequence that cannot be committed, for want of mass or because an id is out of range, stays as it was.
__global__ void __launch_bounds__(kMaxBlockThreads)
accept_and_commit(Rejection rejection, cpspec_drafts drafts, Verified verified, cpspec_frame_state state,
                  int64_t* accepted, int64_t* commits) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t a = blockIdx.x;
    if (a == drafts.sequences) {
        for (int64_t row = threadIdx.x; row < state.batch; row += blockDim.x) {
            bool present = false;
            for (int64_t each = 0; each < drafts.sequences; ++each) present |= drafts.rows[each] == row;
            if (!present) commits[row] = 0;
        }
        return;
    }
    const int64_t row = drafts.rows[a], begin = begin_of(drafts, a, scratch);
    if (!in_range(row, state.batch)) {
        if (threadIdx.x == 0) accepted[a] = -1;
        return;
    }
    const int64_t last = state.last[row];
    const Decision decision = decide(rejection, drafts, a, begin, last, scratch);
    const int64_t committed = decision.accepted + 1, source = verified.first[a] + decision.accepted;
    const bool sound = decision.code >= 0 && last >= 0 && last + committed < state.groups &&
                       in_range(source, verified.count);
    if (threadIdx.x == 0) {
        accepted[a] = sound ? decision.accepted : -1;
        commits[row] = sound ? committed : 0;
    }
    if (!sound) return;
    int64_t* codes = state.codes + row * state.groups + last + 1;
    for (int64_t slot = threadIdx.x; slot < decision.accepted; slot += blockDim.x)
        codes[slot] = drafts.codes[begin + slot];
    if (threadIdx.x == 0) {
        codes[decision.accepted] = decision.code;
        state.last[row] = last + committed;
    }
    const int64_t bytes = state.width * element_bytes(state.dtype);
    copy_bytes(static_cast<char*>(state.context) + row * bytes, verified.hidden + source * bytes, bytes);
}

}  // namespace cpspec
