// The heads kernel over weights that count who loads them: whether a launch reads a head once.
#include "../../cuda/heads.cuh"

namespace cpspec {
namespace {

// How often each weight was loaded, and by which block; in what order blocks come is up to the schedule.
struct Ledger {
    const void* first;
    uint32_t* loads;
    uint32_t* blocks;    // the block that loaded it first, counted from 1
    uint32_t* strangers; // loads by other blocks
};
Ledger ledger;

struct CountedWeight {
    float value;
};

float widen(const CountedWeight& weight) {
    const auto index = &weight - static_cast<const CountedWeight*>(ledger.first);
    const uint32_t block = blockIdx.x + 1;
    ++ledger.loads[index];
    if (ledger.blocks[index] == 0) ledger.blocks[index] = block;
    if (ledger.blocks[index] != block) ++ledger.strangers[index];
    return weight.value;
}

}  // namespace
}  // namespace cpspec

using namespace cpspec;

// NULL, or the fault. loads, blocks and strangers are zeros of the weights' size.
extern "C" CPSPEC_API const char* count_head_reads(const cpspec_heads* heads, const cpspec_head_rows* rows,
                                                   float* logits, uint32_t threads, uint64_t seed, uint32_t* loads,
                                                   uint32_t* blocks, uint32_t* strangers) {
    ledger = {heads->weights, loads, blocks, strangers};
    emulation::options() = {seed, true, threads};
    const int64_t words = tile_words(threads), tiles = (heads->vocabulary + words - 1) / words;
    const bool sound = emulation::launch("heads", grouped_heads_rows<CountedWeight, float>,
                                         dim3(unsigned(rows->count * tiles)), dim3(threads), 0,
                                         HeadsInput{*heads, *rows, logits}, uint32_t(tiles), RowFollowUp{});
    return sound ? nullptr : emulation::last_fault().c_str();
}

// Rows that share a head and are multiplied by one load.
extern "C" CPSPEC_API int32_t rows_per_load() { return kRowsAtOnce; }
