#include "status.h"

#include <cstdarg>
#include <cstdio>

namespace cpspec {
namespace {

thread_local char last_error[256] = "";
thread_local uint64_t operations = 0;

}  // namespace

cpspec_status fail(cpspec_status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

void begin_operation() {
    last_error[0] = '\0';
    ++operations;
}

}  // namespace cpspec

int32_t cpspec_abi_version(void) { return CPSPEC_ABI_VERSION; }

const char* cpspec_last_error(void) { return cpspec::last_error; }

uint64_t cpspec_launches(void) { return cpspec::operations; }
