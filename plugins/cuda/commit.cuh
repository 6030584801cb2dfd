// What commits of chains and of trees share.
#pragma once

#include "cpspec/kernels.h"
#include "platform.cuh"

namespace cpspec {

struct Verified {
    const char* hidden;  // [count, width] in the state's dtype
    int64_t count;
    const int64_t* first;  // [A]
};

// The rows of the batch without a sequence have committed nothing.
__device__ inline void commit_nothing(const int64_t* rows, int64_t sequences, int64_t batch, int64_t* commits) {
    for (int64_t row = threadIdx.x; row < batch; row += blockDim.x) {
        bool present = false;
        for (int64_t each = 0; each < sequences; ++each) present |= rows[each] == row;
        if (!present) commits[row] = 0;
    }
}

}  // namespace cpspec
