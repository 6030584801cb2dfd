/* What only the CPU library offers, beside kernels.h. */
#ifndef CPSPEC_CPU_H
#define CPSPEC_CPU_H

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Use the named instruction set ("avx512", "avx2", "baseline"; "neon" on Arm) instead of the best one this machine
 * has. All give the same bits: this is for tests. UNSUPPORTED where the machine lacks it. Not while another thread
 * is inside an operation. */
CPSPEC_API cpspec_status cpspec_cpu_use_level(const char* name);

#ifdef __cplusplus
}
#endif

#endif
