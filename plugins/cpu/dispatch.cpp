// Which instruction set runs.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstring>

#include "cpspec/cpu.h"
#include "level.h"
#include "status.h"

namespace cpspec {

#if defined(__x86_64__)
extern const Level level_avx512;
extern const Level level_avx2;
extern const Level level_baseline;
#elif defined(__aarch64__)
extern const Level level_neon;
#else
extern const Level level_baseline;
#endif

namespace {

struct Candidate {
    const Level* level;
    const char* implementation;
    bool available;
};

#if defined(__x86_64__)
constexpr size_t kCandidates = 3;

// Conversion of float16. Older clangs do not know it as a name; "avx2" already says that the system saves its registers.
bool has_f16c() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
#else
constexpr size_t kCandidates = 1;
#endif

// Best first.
struct Candidates {
    Candidate list[kCandidates];

    Candidates()
#if defined(__x86_64__)
        : list{{&level_avx512, "cpu avx512", false},
               {&level_avx2, "cpu avx2", false},
               {&level_baseline, "cpu baseline", true}} {
        __builtin_cpu_init();
        const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
        list[1].available = avx2;
        list[0].available = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    }
#elif defined(__aarch64__)
        : list{{&level_neon, "cpu neon", true}} {}
#else
        : list{{&level_baseline, "cpu baseline", true}} {}
#endif

    const Candidate* best() const {
        const Candidate* each = list;
        while (!each->available) ++each;  // the last one always is
        return each;
    }
};

const Candidates& candidates() {
    static const Candidates found;
    return found;
}

const Candidate*& chosen() {
    static const Candidate* candidate = candidates().best();
    return candidate;
}

}  // namespace

const Level& level() { return *chosen()->level; }

}  // namespace cpspec

const char* cpspec_implementation(void) { return cpspec::chosen()->implementation; }

cpspec_status cpspec_cpu_use_level(const char* name) {
    using namespace cpspec;
    if (!name) return fail(CPSPEC_INVALID_ARGUMENT, "cpspec_cpu_use_level: name is NULL");
    for (const Candidate& each : candidates().list) {
        if (std::strcmp(each.level->name, name) != 0) continue;
        if (!each.available) return fail(CPSPEC_UNSUPPORTED, "this machine has no %s", name);
        chosen() = &each;
        return CPSPEC_OK;
    }
    return fail(CPSPEC_UNSUPPORTED, "this library was built without the level %s", name);
}
