// The arithmetic of the filter. A row of logits x becomes
//
//   z = x / T        (x itself where the row is greedy)
//   s = z - max z
//   w = exp(s)       among the top_k smallest distances, lower index first
//   p = w / sum w    over the smallest prefix, in order of distance and then of index, that holds top_p of the mass
//
// Mass is counted in integers, multiples of 2^-40 of the most probable token's weight. Integer sums are the same in
// every order, so however an implementation selects, it keeps the same tokens and divides by the same mass. A token
// loses less than 2^-40; a whole vocabulary of 152,064 loses less than 1.4e-7 of the mass.
#pragma once

#include "elementary.h"
#include "order.h"

namespace cpspec {

constexpr float kGreedyBelow = 1e-3f;

CPSPEC_HD bool is_greedy(float temperature) { return temperature < kGreedyBelow; }

CPSPEC_HD float divisor_of(float temperature) { return is_greedy(temperature) ? 1.0f : temperature; }

// How many candidates top-k leaves.
CPSPEC_HD int64_t kept_by_top_k(int32_t top_k, float temperature, int64_t vocabulary) {
    if (is_greedy(temperature)) return 1;
    return top_k == 0 || top_k > vocabulary ? vocabulary : top_k;
}

CPSPEC_HD bool cuts_mass(float top_p, float temperature) { return !is_greedy(temperature) && top_p < 1.0f; }

CPSPEC_HD uint64_t mass_of(float weight) { return uint64_t(int64_t(weight * 0x1p40f)); }

CPSPEC_HD float weight_of_mass(uint64_t mass) { return float(int64_t(mass)) * 0x1p-40f; }

// The least mass the kept prefix must reach: a token is kept while the mass before it is below this.
CPSPEC_HD uint64_t needed_mass(float top_p, uint64_t total) {
    const double share = double(top_p) * double(int64_t(total));
    uint64_t needed = uint64_t(int64_t(share));
    needed += double(int64_t(needed)) < share ? 1 : 0;
    return needed < total ? needed : total;
}

// Of tokens tied at the border, `each` of mass, how many are kept when those before them hold `before` < `needed`.
CPSPEC_HD uint64_t kept_of_tied(uint64_t needed, uint64_t before, uint64_t each) {
    return (needed - before + each - 1) / each;
}

// The Talker's processors, in their order.
CPSPEC_HD float processed(float logit, bool seen, float penalty, bool banned) {
    const float penalised = logit < 0.0f ? logit * penalty : logit / penalty;
    const float scored = seen ? penalised : logit;
    return banned ? float_of(0xff800000u) : scored;
}

}  // namespace cpspec
