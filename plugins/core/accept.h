// The rejection rule of one slot (Leviathan et al., arXiv 2211.17192).
#pragma once

#include "platform.h"

namespace cpspec {

// Keep x with probability min(1, p(x) / q(x)).
CPSPEC_HD bool keeps_draft(float uniform, float target, float draft) { return uniform * draft < target; }

// What a rejection draws from, up to a factor. Where it has no mass anywhere, p itself is drawn from.
CPSPEC_HD float residual_of(float target, float draft) {
    const float excess = target - draft;
    return excess > 0.0f ? excess : 0.0f;
}

}  // namespace cpspec
