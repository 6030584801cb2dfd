// Why a call failed.
#pragma once

#include "cpspec/kernels.h"

namespace cpspec {

// Remembers the message for cpspec_last_error and returns `status`.
__attribute__((format(printf, 2, 3))) cpspec_status fail(cpspec_status status, const char* format, ...);

// Counts an operation and forgets the last error.
void begin_operation();

}  // namespace cpspec

// Returns from the operation when a check fails.
#define CPSPEC_CHECK(check)                                       \
    do {                                                          \
        const cpspec_status checked_ = (check);                   \
        if (checked_ != CPSPEC_OK) return checked_;               \
    } while (false)
