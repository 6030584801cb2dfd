// Working memory for one row, carved out of a block of the caller's or of the stack.
#pragma once

#include "level.h"

namespace cpspec {

constexpr size_t kScratchAlignment = 64;
constexpr size_t kBytesPerToken = 5 * sizeof(uint32_t) + sizeof(uint64_t);

// Every array starts on a cache line.
inline size_t padded_vocabulary(int64_t vocabulary) { return (size_t(vocabulary) + 15) / 16 * 16; }

inline size_t scratch_bytes(int64_t vocabulary) {
    return padded_vocabulary(vocabulary) * kBytesPerToken + kScratchAlignment;
}

inline RowScratch carve(void* memory, int64_t vocabulary) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(memory);
    char* next = reinterpret_cast<char*>((address + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment);
    const size_t tokens = padded_vocabulary(vocabulary);
    const auto take = [&next, tokens](size_t size) {
        void* taken = next;
        next += tokens * size;
        return taken;
    };
    RowScratch scratch;
    scratch.mass = static_cast<uint64_t*>(take(sizeof(uint64_t)));
    scratch.logits = static_cast<float*>(take(sizeof(float)));
    scratch.keys = static_cast<uint32_t*>(take(sizeof(uint32_t)));
    scratch.survivor_keys = static_cast<uint32_t*>(take(sizeof(uint32_t)));
    scratch.words = scratch.survivor_keys;
    scratch.survivor_index = static_cast<uint32_t*>(take(sizeof(uint32_t)));
    scratch.weights = static_cast<float*>(take(sizeof(float)));
    return scratch;
}

// Scratch of a row that is within the bound, on the stack.
class StackScratch {
  public:
    RowScratch row() { return carve(memory_, CPSPEC_MAX_VOCABULARY); }

  private:
    unsigned char memory_[size_t(CPSPEC_MAX_VOCABULARY) * kBytesPerToken + kScratchAlignment];
};

}  // namespace cpspec
