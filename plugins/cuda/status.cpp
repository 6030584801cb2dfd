// What the library says of itself and of the last call.
#include "../cpu/status.h"

#include <cstdarg>
#include <cstdio>

#include "launch.h"

namespace cpspec {
namespace {

thread_local char last_error[512] = "";
thread_local uint64_t launches = 0;

}  // namespace

cpspec_status fail(cpspec_status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

void begin_operation() { last_error[0] = '\0'; }

void count_launch() { ++launches; }

}  // namespace cpspec

int32_t cpspec_abi_version(void) { return CPSPEC_ABI_VERSION; }

const char* cpspec_last_error(void) { return cpspec::last_error; }

uint64_t cpspec_launches(void) { return cpspec::launches; }

#ifdef __CUDACC__
unsigned cpspec::block_threads() { return kMaxBlockThreads; }

const char* cpspec_implementation(void) { return "cuda"; }
#else
unsigned cpspec::block_threads() { return emulation::options().block_threads; }

const char* cpspec_implementation(void) { return "emulated cuda"; }
#endif
