// The arithmetic of acceptance, one slot at a time.
//
//   rejection  keep x with probability min(1, p(x) / q(x))                     (Leviathan et al., arXiv 2211.17192)
//   block      b_0 = 1, b_i = min(b_(i-1) p_i(x_i) / q_i(x_i), 1);             (Sun et al., arXiv 2403.10444)
//              h_n = b_n, h_i = S_i / (S_i + 1 - b_i), S_i = sum of max(b_i p_(i+1) - q_(i+1), 0);
//              the largest i with eta_i <= h_i drafts stand
//   coupled    the code is the target's own draw; go on while the drafts agree (arXiv 2408.07978)
//   guard      a row whose two best lie closer than a tolerance decides nothing
//
// After a rejection the code comes from max(b p - q, 0), b = 1 under rejection. S_i is counted in integers, as the
// filter's mass is (filter.h): a sum over the vocabulary has no order.
#pragma once

#include "filter.h"

namespace cpspec {

constexpr int64_t kWithoutMass = -1;  // in the place of a code: nothing can be drawn
constexpr int64_t kGuarded = -2;      // nothing is decided

// Keep x with probability min(1, p(x) / q(x)).
CPSPEC_HD bool keeps_draft(float uniform, float target, float draft) { return uniform * draft < target; }

// What a rejection draws from, up to a factor. Where it has no mass anywhere, p itself is drawn from.
CPSPEC_HD float residual_of(float joint, float target, float draft) {
    const float excess = joint * target - draft;
    return excess > 0.0f ? excess : 0.0f;
}

// b_i of b_(i-1), p_i(x_i) and q_i(x_i); 0/0 counts as 1. Once 0 it stays 0: a ratio beyond the largest float must not
// make a number of it again.
CPSPEC_HD float joint_after(float joint, float target, float draft) {
    if (!(joint > 0.0f)) return 0.0f;
    const float ratio = draft > 0.0f ? target / draft : 1.0f;
    const float product = joint * ratio;
    return product < 1.0f ? product : 1.0f;
}

// h_i of b_i and the mass of S_i; 0/0 counts as 1.
CPSPEC_HD float reach_of(float joint, uint64_t mass) {
    const float sum = weight_of_mass(mass);
    const float whole = sum + (1.0f - joint);
    return whole > 0.0f ? sum / whole : 1.0f;
}

CPSPEC_HD bool stands_jointly(float uniform, float reach) { return uniform <= reach; }

CPSPEC_HD bool is_guarded(float gap, float tolerance) { return gap < tolerance; }

CPSPEC_HD float tolerance_of(const float* tolerances, int64_t sequence) {
    return tolerances ? tolerances[sequence] : 0.0f;
}

}  // namespace cpspec
