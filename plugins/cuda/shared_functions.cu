// Launchers of the functions of plugins/core by themselves.
#include "arguments.h"
#include "shared_functions.cuh"

using namespace cpspec;

namespace {

int64_t blocks_for(int64_t n) { return (n + block_threads() - 1) / block_threads(); }

}  // namespace

cpspec_status cpspec_philox(const uint32_t* counters, const uint32_t* keys, int64_t n, uint32_t* out,
                            cpspec_stream stream) {
    constexpr const char* kName = "cpspec_philox";
    begin_operation();
    CPSPEC_CHECK(check_size(kName, "n", n, 0));
    if (n == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"counters", counters}, {"keys", keys}, {"out", out}}));
    return enqueue({kName, blocks_for(n), 0, stream}, philox_each, counters, keys, n, out);
}

cpspec_status cpspec_token_words(const cpspec_noise_rows* noise, const int64_t* tokens, int64_t n, uint32_t* words,
                                 cpspec_stream stream) {
    constexpr const char* kName = "cpspec_token_words";
    begin_operation();
    CPSPEC_CHECK(check_size(kName, "n", n, 0));
    if (n == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_noise(kName, noise));
    CPSPEC_CHECK(check_pointers(kName, {{"tokens", tokens}, {"words", words}}));
    return enqueue({kName, blocks_for(n), 0, stream}, token_word_each, *noise, tokens, n, words);
}

cpspec_status cpspec_noise(const uint32_t* words, int64_t n, float* uniforms, float* gumbels, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_noise";
    begin_operation();
    CPSPEC_CHECK(check_size(kName, "n", n, 0));
    if (n == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"words", words}, {"uniforms", uniforms}, {"gumbels", gumbels}}));
    return enqueue({kName, blocks_for(n), 0, stream}, noise_each, words, n, uniforms, gumbels);
}

cpspec_status cpspec_evaluate(cpspec_function function, const float* x, int64_t n, float* y, cpspec_stream stream) {
    constexpr const char* kName = "cpspec_evaluate";
    begin_operation();
    CPSPEC_CHECK(check_size(kName, "n", n, 0));
    if (function < CPSPEC_EXP || function > CPSPEC_LOG1P)
        return fail(CPSPEC_INVALID_ARGUMENT, "%s: function is %d, which is no cpspec_function", kName, int(function));
    if (n == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"x", x}, {"y", y}}));
    return enqueue({kName, blocks_for(n), 0, stream}, evaluate_each, function, x, n, y);
}
