// The functions of plugins/core by themselves, as the level in use computes them.
#include "../core/philox.h"
#include "arguments.h"
#include "steps.h"

using namespace cpspec;

cpspec_status cpspec_philox(const uint32_t* counters, const uint32_t* keys, int64_t n, uint32_t* out, cpspec_stream) {
    constexpr const char* kName = "cpspec_philox";
    begin_operation();
    CPSPEC_CHECK(check_size(kName, "n", n, 0));
    if (n == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"counters", counters}, {"keys", keys}, {"out", out}}));
    level().philox(counters, keys, n, out);
    return CPSPEC_OK;
}

cpspec_status cpspec_token_words(const cpspec_noise_rows* noise, const int64_t* tokens, int64_t n, uint32_t* words,
                                 cpspec_stream) {
    constexpr const char* kName = "cpspec_token_words";
    begin_operation();
    CPSPEC_CHECK(check_size(kName, "n", n, 0));
    if (n == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_noise(kName, noise));
    CPSPEC_CHECK(check_pointers(kName, {{"tokens", tokens}, {"words", words}}));
    for (int64_t i = 0; i < n; ++i) {
        CPSPEC_CHECK(check_index(kName, "tokens", tokens[i], int64_t(1) << 32));
        words[i] = token_word(noise_of(noise, i), uint32_t(tokens[i]));
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_noise(const uint32_t* words, int64_t n, float* uniforms, float* gumbels, cpspec_stream) {
    constexpr const char* kName = "cpspec_noise";
    begin_operation();
    CPSPEC_CHECK(check_size(kName, "n", n, 0));
    if (n == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"words", words}, {"uniforms", uniforms}, {"gumbels", gumbels}}));
    level().noise(words, n, uniforms, gumbels);
    return CPSPEC_OK;
}

cpspec_status cpspec_evaluate(cpspec_function function, const float* x, int64_t n, float* y, cpspec_stream) {
    constexpr const char* kName = "cpspec_evaluate";
    begin_operation();
    CPSPEC_CHECK(check_size(kName, "n", n, 0));
    if (function < CPSPEC_EXP || function > CPSPEC_LOG1P) {
        return fail(CPSPEC_INVALID_ARGUMENT, "%s: function is %d, which is no cpspec_function", kName, int(function));
    }
    if (n == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"x", x}, {"y", y}}));
    level().evaluate(function, x, n, y);
    return CPSPEC_OK;
}
