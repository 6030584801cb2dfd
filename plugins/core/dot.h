// The one order in which a head's dot product is summed: 32 strided partial sums, as a warp's lanes would keep them,
// then a butterfly over the lanes.
#pragma once

#include "fma.h"
#include "narrow.h"

namespace cpspec {

constexpr int kLanes = 32;

// Lane l sums the elements l, l + 32, l + 64 ... in that order.
template <class Weight, class Hidden>
CPSPEC_HD float lane_sum(const Weight* weights, const Hidden* hidden, int64_t width, int lane) {
    float sum = 0.0f;
    for (int64_t i = lane; i < width; i += kLanes) sum = fma_(widen(weights[i]), widen(hidden[i]), sum);
    return sum;
}

// sums[l] += sums[l ^ d] for d = 16, 8, 4, 2, 1: what __shfl_xor_sync does; every lane ends with the same total.
// Here lane 0's half of the work is enough.
CPSPEC_HD float butterfly(float* sums) {
    for (int d = kLanes / 2; d > 0; d /= 2) {
        for (int lane = 0; lane < d; ++lane) sums[lane] = sums[lane] + sums[lane + d];
    }
    return sums[0];
}

}  // namespace cpspec
