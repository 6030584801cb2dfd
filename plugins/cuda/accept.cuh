// Acceptance of draft chains, one block per sequence, and the commit of what was accepted.
#pragma once

#include "commit.cuh"
#include "rules.cuh"

namespace cpspec {

struct EqualsTarget {
    const int64_t* targets;
    const int64_t* drafts;
    LeadsEnough leads;
    __device__ bool operator()(int64_t slot) const { return leads(slot) && targets[slot] == drafts[slot]; }
};

__global__ void __launch_bounds__(kMaxBlockThreads)
accept_greedy_sequences(const int64_t* targets, cpspec_drafts drafts, const float* margins,
                        const float* tolerances, int64_t* accepted, int64_t* codes) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t a = blockIdx.x, begin = begin_of(drafts, a, scratch);
    const int64_t* own_targets = targets + begin + a;  // every earlier sequence has one target more than drafts
    const LeadsEnough leads{margins ? margins + begin + a : nullptr, tolerance_of(tolerances, a)};
    const EqualsTarget equals{own_targets, drafts.codes + begin, leads};
    const int64_t stand = leading(equals, count_of(drafts, a), scratch);
    if (threadIdx.x != 0) return;
    accepted[a] = stand;
    codes[a] = leads(stand) ? own_targets[stand] : kGuarded;
}

__global__ void __launch_bounds__(kMaxBlockThreads)
accept_sequences(Round round, cpspec_drafts drafts, const int64_t* last, int64_t* accepted, int64_t* codes) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t a = blockIdx.x;
    const Chain chain = chain_of(round, drafts, a, begin_of(drafts, a, scratch), last[a]);
    const Decision decision = decide(chain, round.rule, tolerance_of(round.tolerances, a), scratch);
    if (threadIdx.x != 0) return;
    accepted[a] = decision.accepted;
    codes[a] = decision.code;
}

// Blocks 0 ... A-1 accept and commit a sequence each; block A sees to the rows without one. A sequence that cannot be
// committed, for want of mass or because an id is out of range, stays as it was.
__global__ void __launch_bounds__(kMaxBlockThreads)
accept_and_commit(Round round, cpspec_drafts drafts, Verified verified, cpspec_frame_state state, int64_t* accepted,
                  int64_t* commits) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const int64_t a = blockIdx.x;
    if (a == drafts.sequences) return commit_nothing(drafts.rows, drafts.sequences, state.batch, commits);
    const int64_t row = drafts.rows[a], begin = begin_of(drafts, a, scratch);
    if (!in_range(row, state.batch)) {
        if (threadIdx.x == 0) accepted[a] = -1;
        return;
    }
    const int64_t last = state.last[row];
    const Chain chain = chain_of(round, drafts, a, begin, last);
    const Decision decision = decide(chain, round.rule, tolerance_of(round.tolerances, a), scratch);
    const int64_t committed = decision.accepted + (decision.code >= 0 ? 1 : 0);
    const int64_t source = verified.first[a] + committed - 1;
    const bool sound = decision.code != kWithoutMass && last >= 0 && last + committed < state.groups &&
                       (committed == 0 || in_range(source, verified.count));
    if (threadIdx.x == 0) {
        accepted[a] = sound ? decision.accepted : -1;
        commits[row] = sound ? committed : 0;
    }
    if (!sound || committed == 0) return;
    int64_t* codes = state.codes + row * state.groups + last + 1;
    for (int64_t slot = threadIdx.x; slot < decision.accepted; slot += blockDim.x)
        codes[slot] = drafts.codes[begin + slot];
    if (threadIdx.x == 0) {
        if (decision.code >= 0) codes[decision.accepted] = decision.code;
        state.last[row] = last + committed;
    }
    const int64_t bytes = state.width * element_bytes(state.dtype);
    copy_bytes(static_cast<char*>(state.context) + row * bytes, verified.hidden + source * bytes, bytes);
}

}  // namespace cpspec
