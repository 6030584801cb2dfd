// What tests set before they call the emulated library.
#include "cpspec/kernels.h"
#include "platform.cuh"

// Schedule seed (0 keeps the natural order), poisoning of shared memory, and threads of a block: a multiple of 32 up to
// 256.
extern "C" CPSPEC_API void cpspec_emulation_configure(uint64_t seed, int32_t poison, uint32_t block_threads) {
    emulation::options() = {seed, poison != 0, block_threads};
}
