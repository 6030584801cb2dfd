// Stateless random numbers: Philox4x32-10 (Salmon et al., SC 2011), its streams, and the numbers made of its words.
//
//   key     low and high 32 bits of the request's seed
//   word 0  token >> 2 (the token takes lane token & 3); a scalar is token 0
//   word 1  the stream: purpose, depth and, for the numbers of a round, the index of its last committed code
//   word 2  frame
//   word 3  0
#pragma once

#include "elementary.h"

namespace cpspec {

enum Purpose : uint32_t {
    kTargetNoise = 0,
    kDraftNoise = 1,
    kAcceptUniform = 2,
    kResidualNoise = 3,
    kTalkerNoise = 4,
    kThinkerNoise = 5,
};

CPSPEC_HD uint32_t stream_word(Purpose purpose, uint32_t depth) { return (uint32_t(purpose) << 16) + depth; }

// Draft, accept and residual numbers also depend on the round: a rejected slot gets fresh ones in the next round.
CPSPEC_HD uint32_t round_stream_word(Purpose purpose, uint32_t depth, uint32_t last) {
    return (uint32_t(purpose) << 16) + (last << 8) + depth;
}

struct Words4 {
    uint32_t w0, w1, w2, w3;
};

CPSPEC_HD Words4 philox4x32(Words4 counter, uint32_t key0, uint32_t key1) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t product0 = uint64_t(0xD2511F53u) * counter.w0;
        const uint64_t product1 = uint64_t(0xCD9E8D57u) * counter.w2;
        counter = Words4{uint32_t(product1 >> 32) ^ counter.w1 ^ key0, uint32_t(product1),
                         uint32_t(product0 >> 32) ^ counter.w3 ^ key1, uint32_t(product0)};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

// Where the noise of a row comes from.
struct Noise {
    uint64_t seed;
    uint32_t stream;
    uint32_t frame;
};

CPSPEC_HD Words4 quad_words(Noise noise, uint32_t quad) {
    return philox4x32(Words4{quad, noise.stream, noise.frame, 0u}, uint32_t(noise.seed), uint32_t(noise.seed >> 32));
}

CPSPEC_HD uint32_t token_word(Noise noise, uint32_t token) {
    const Words4 words = quad_words(noise, token >> 2);
    const uint32_t lane = token & 3u;
    const uint32_t low = (lane & 1u) ? words.w1 : words.w0;
    const uint32_t high = (lane & 1u) ? words.w3 : words.w2;
    return (lane & 2u) ? high : low;
}

CPSPEC_HD uint32_t scalar_word(Noise noise) { return quad_words(noise, 0u).w0; }

// A number in (0, 1), every step rounded to float32: fine steps near 0, where they matter.
CPSPEC_HD float uniform_of(uint32_t word) {
    const float scaled = (float(word) + 0.5f) * 0x1p-32f;
    return scaled < 1.0f - 0x1p-24f ? scaled : 1.0f - 0x1p-24f;
}

// Gumbel noise -log E of an exponential E = -log1p(-u). The winners of the race have a small E, hence a small u,
// which float32 resolves finely; -log u would take E from a u near 1 and lose it.
CPSPEC_HD float gumbel_of(uint32_t word) { return -log_(-log1p_(-uniform_of(word))); }

// What a categorical draw maximises over the support (p > 0), the lower token among equals.
CPSPEC_HD float race_score(float probability, uint32_t word) { return log_(probability) + gumbel_of(word); }

}  // namespace cpspec
