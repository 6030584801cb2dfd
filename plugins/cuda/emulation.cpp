// What tests set before they call the emulated library, and launches kept for a stream that a test simulates.
#include <map>

#include "../cpu/status.h"
#include "cpspec/kernels.h"
#include "platform.cuh"

// Schedule seed (0 keeps the natural order), poisoning of shared memory, and threads of a block: a multiple of 32 up to
// 256.
extern "C" CPSPEC_API void cpspec_emulation_configure(uint64_t seed, int32_t poison, uint32_t block_threads) {
    emulation::options() = {seed, poison != 0, block_threads};
}

namespace {

std::map<uint64_t, emulation::Deferred> kept;

}  // namespace

// From here on, until `cpspec_emulation_keep`, operations check their arguments and count their launches, but run none.
extern "C" CPSPEC_API void cpspec_emulation_defer() { emulation::options().deferred = true; }

// A handle of what was deferred; operations run at once again.
extern "C" CPSPEC_API uint64_t cpspec_emulation_keep() {
    static uint64_t next = 0;
    emulation::options().deferred = false;
    kept[++next] = emulation::take_deferred();
    return next;
}

// Runs what a handle stands for; may be called again and again.
extern "C" CPSPEC_API int32_t cpspec_emulation_run(uint64_t handle) {
    for (const auto& launch : kept.at(handle))
        if (!launch()) return cpspec::fail(CPSPEC_DEVICE_ERROR, "%s", emulation::last_fault().c_str());
    return CPSPEC_OK;
}

extern "C" CPSPEC_API void cpspec_emulation_drop(uint64_t handle) { kept.erase(handle); }
