#pragma once

#include "cpspec/kernels.h"

namespace cpspec {

inline size_t element_bytes(cpspec_dtype dtype) { return dtype == CPSPEC_FLOAT32 ? 4 : 2; }

}  // namespace cpspec
