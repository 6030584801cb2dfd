// Filter and draw over a vocabulary too large for one block: several blocks per row, a tile of words each, over a few
// launches. Between launches a row's state lies in the caller's workspace, which starts as zeros.
//
//   find_extremes   the row's maximum and whether it is sound
//   count_digit     three times: the border of top-k, by radix selection as in select.cuh
//   weigh_digit     three times: the total mass, and the border of top-p
//   find_last_tied  which of the tokens tied at the border survive
//   draw_tile       probabilities and the race
//
// In each, the block of a row that arrives last draws the conclusion from what all blocks of the row have added up.
#pragma once

#include "row.cuh"

namespace cpspec {

constexpr int kTileWords = 4096;

// What survives: all tokens nearer than `border`, and the first `ties` of those at it.
struct Cut {
    uint32_t border;
    uint64_t ties;
};

constexpr uint32_t kBeyondAll = 0x80000000u;  // no distance key reaches it

struct SampleRow {
    uint32_t highest, lowest;  // halves of extremes_of
    uint32_t arrivals;
    int32_t error;
    float maximum;
    bool cut_is_final;
    Border search;
    Cut cut;
    uint64_t limit, mass, needed;
    unsigned long long winner;  // a contender
};

// One row's part of the workspace.
struct Workspace {
    SampleRow* rows;                // [R]
    unsigned long long* histogram;  // [R, kBins]
    uint32_t* tied;                 // [R, tiles]
};

template <class Element>
struct SampleJob {
    const Element* logits;  // [R, vocabulary]
    int vocabulary;
    uint32_t tiles;
    cpspec_filter_rows filters;
    cpspec_noise_rows noise;
    RowOutput output;
    Workspace workspace;
};

// What a block works on.
template <class Element>
struct SampleTile {
    int64_t row;
    uint32_t index;
    int begin, end;
    const Element* logits;
    float divisor;
    SampleRow* state;

    __device__ SampleTile(const SampleJob<Element>& job)
        : row(blockIdx.x / job.tiles), index(blockIdx.x % job.tiles), begin(int(index) * kTileWords),
          end(begin + kTileWords < job.vocabulary ? begin + kTileWords : job.vocabulary),
          logits(job.logits + row * job.vocabulary), divisor(divisor_of(job.filters.temperature[row])),
          state(job.workspace.rows + row) {}

    __device__ float scaled(int i) const { return widen(logits[i]) / divisor; }
    __device__ uint32_t distance(int i) const { return distance_key(scaled(i) - state->maximum); }
};

template <class Element>
__global__ void __launch_bounds__(kMaxBlockThreads) find_extremes(SampleJob<Element> job) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const SampleTile<Element> tile(job);
    SampleRow& state = *tile.state;
    uint64_t extremes = 0;
    for (int i = tile.begin + int(threadIdx.x); i < tile.end; i += int(blockDim.x))
        extremes = LargestHalves()(extremes, extremes_of(rising_key(tile.scaled(i))));
    extremes = block_reduce(extremes, LargestHalves(), scratch);
    if (threadIdx.x == 0) {
        atomicMax(&state.highest, uint32_t(extremes >> 32));
        atomicMax(&state.lowest, uint32_t(extremes));
    }
    if (!last_to_arrive(&state.arrivals, job.tiles, scratch) || threadIdx.x != 0) return;
    extremes = uint64_t(__ldcg(&state.highest)) << 32 | __ldcg(&state.lowest);
    const RowFilter filter = filter_of(job.filters, tile.row);
    state.error = row_error(lowest_of(extremes), highest_of(extremes));
    state.maximum = value_of_key(highest_of(extremes));
    const int64_t kept = kept_by_top_k(filter.top_k, filter.temperature, job.vocabulary);
    state.search = Border{0, 0, uint64_t(kept)};
    state.cut = Cut{kBeyondAll, 0};
    state.cut_is_final = kept >= job.vocabulary;
}

// Adds the block's histogram to the row's, and brings the whole of it back to the last block of the row. `gathered` may
// lie where `own` does.
template <class Count>
__device__ bool gather_histogram(const Count* own, unsigned long long* whole, unsigned long long* gathered,
                                 uint32_t* arrivals, uint32_t tiles, BlockScratch& scratch) {
    __syncthreads();
    for (int bin = int(threadIdx.x); bin < kBins; bin += int(blockDim.x))
        if (own[bin]) atomicAdd(&whole[bin], (unsigned long long)own[bin]);
    if (!last_to_arrive(arrivals, tiles, scratch)) return false;
    for (int bin = int(threadIdx.x); bin < kBins; bin += int(blockDim.x)) {
        gathered[bin] = __ldcg(&whole[bin]);
        whole[bin] = 0;  // for the next digit
    }
    __syncthreads();
    return true;
}

template <class Element>
__global__ void __launch_bounds__(kMaxBlockThreads) count_digit(SampleJob<Element> job, int digit) {
    CPSPEC_SHARED(SelectScratch, scratch);
    const SampleTile<Element> tile(job);
    SampleRow& state = *tile.state;
    if (state.error || state.cut_is_final) return;
    for (int bin = int(threadIdx.x); bin < kBins; bin += int(blockDim.x)) scratch.counts[bin] = 0;
    __syncthreads();
    Border border = state.search;
    for (int i = tile.begin + int(threadIdx.x); i < tile.end; i += int(blockDim.x)) {
        const uint32_t distance = tile.distance(i);
        if (may_be_border(border, distance)) atomicAdd(&scratch.counts[digit_of(distance, digit)], 1u);
    }
    unsigned long long* whole = job.workspace.histogram + tile.row * kBins;
    if (!gather_histogram(scratch.counts, whole, scratch.masses, &state.arrivals, job.tiles, scratch.block)) return;
    const Bin bin = bin_reaching(scratch.masses, border.missing, scratch.bin, scratch.block);
    narrow(border, digit, bin);
    if (threadIdx.x != 0) return;
    state.search = border;
    const bool whole_bin = border.missing == bin.held;
    state.cut_is_final = whole_bin || digit == kDigits - 1;
    if (state.cut_is_final)
        state.cut = whole_bin ? Cut{last_of(border) + 1, 0} : Cut{border.prefix, border.missing};
}

template <class Element>
__global__ void __launch_bounds__(kMaxBlockThreads) weigh_digit(SampleJob<Element> job, int digit) {
    CPSPEC_SHARED(SelectScratch, scratch);
    const SampleTile<Element> tile(job);
    SampleRow& state = *tile.state;
    const RowFilter filter = filter_of(job.filters, tile.row);
    const bool cuts = cuts_mass(filter.top_p, filter.temperature);
    if (state.error || (digit > 0 && !cuts)) return;
    for (int bin = int(threadIdx.x); bin < kBins; bin += int(blockDim.x)) scratch.masses[bin] = 0;
    __syncthreads();
    const Cut cut = state.cut;
    Border border = digit == 0 ? Border{0, 0, 0} : state.search;
    for (int i = tile.begin + int(threadIdx.x); i < tile.end; i += int(blockDim.x)) {
        const uint32_t distance = tile.distance(i);
        if (distance < cut.border && may_be_border(border, distance))
            atomicAdd(&scratch.masses[digit_of(distance, digit)], (unsigned long long)mass_at(distance));
    }
    unsigned long long* whole = job.workspace.histogram + tile.row * kBins;
    if (!gather_histogram(scratch.masses, whole, scratch.masses, &state.arrivals, job.tiles, scratch.block)) return;
    // The survivors tied at the border of top-k are equally heavy, so they need not be known yet.
    if (threadIdx.x == 0 && cut.ties && may_be_border(border, cut.border))
        scratch.masses[digit_of(cut.border, digit)] += cut.ties * mass_at(cut.border);
    __syncthreads();
    if (digit == 0) {
        uint64_t total = 0;
        for (int bin = int(threadIdx.x); bin < kBins; bin += int(blockDim.x)) total += scratch.masses[bin];
        total = block_reduce(total, Sum(), scratch.block);
        if (threadIdx.x == 0) state.mass = total;
        if (!cuts) return;
        border.missing = needed_mass(filter.top_p, total);
        if (threadIdx.x == 0) state.needed = border.missing;
    }
    narrow(border, digit, bin_reaching(scratch.masses, border.missing, scratch.bin, scratch.block));
    if (threadIdx.x != 0) return;
    state.search = border;
    if (digit != kDigits - 1) return;
    const uint64_t each = mass_at(border.prefix), before = state.needed - border.missing;
    const uint64_t ties = kept_of_tied(state.needed, before, each);
    state.cut = Cut{border.prefix, ties};
    state.mass = before + ties * each;
}

template <class Element>
struct TiedInTile {
    SampleTile<Element> tile;
    uint32_t border;
    __device__ bool operator()(int i) const { return tile.distance(i) == border; }
};

template <class Element>
__global__ void __launch_bounds__(kMaxBlockThreads) find_last_tied(SampleJob<Element> job) {
    CPSPEC_SHARED(SelectScratch, scratch);
    SampleTile<Element> tile(job);
    SampleRow& state = *tile.state;
    const Cut cut = state.cut;
    if (state.error) return;
    if (!cut.ties) {
        if (tile.index == 0 && threadIdx.x == 0) state.limit = place_of(cut.border - 1, kAnyIndex);
        return;
    }
    uint32_t* tied = job.workspace.tied + tile.row * job.tiles;
    const TiedInTile<Element> here{tile, cut.border};
    uint64_t own = 0;
    for (int i = tile.begin + int(threadIdx.x); i < tile.end; i += int(blockDim.x)) own += here(i);
    own = block_reduce(own, Sum(), scratch.block);
    if (threadIdx.x == 0) tied[tile.index] = uint32_t(own);
    if (!last_to_arrive(&state.arrivals, job.tiles, scratch.block)) return;
    uint64_t before = 0;  // few tiles: every thread adds them up
    uint32_t at = 0;
    while (before + __ldcg(&tied[at]) < cut.ties) before += __ldcg(&tied[at++]);
    const int begin = int(at) * kTileWords;
    const int end = begin + kTileWords < job.vocabulary ? begin + kTileWords : job.vocabulary;
    const uint32_t index = index_of_tied(here, begin, end, cut.ties - before, scratch.bin, scratch.block);
    if (threadIdx.x == 0) state.limit = place_of(cut.border, index);
}

template <class Element>
__global__ void __launch_bounds__(kMaxBlockThreads) draw_tile(SampleJob<Element> job) {
    CPSPEC_SHARED(BlockScratch, scratch);
    const SampleTile<Element> tile(job);
    SampleRow& state = *tile.state;
    const Noise noise = noise_of(job.noise, tile.row);
    const bool sound = state.error == 0;
    const uint64_t limit = state.limit;
    const float sum = weight_of_mass(state.mass);
    float* probabilities = job.output.probabilities;
    if (probabilities) probabilities += tile.row * job.vocabulary;
    uint64_t best = 0;
    for (int first = tile.begin + 4 * int(threadIdx.x); first < tile.end; first += 4 * int(blockDim.x)) {
        float own[4];
        for (int lane = 0; lane < 4; ++lane) {
            const int i = first + lane;
            own[lane] = 0.0f;
            if (sound && i < tile.end) {
                const uint32_t distance = tile.distance(i);
                if (place_of(distance, uint32_t(i)) <= limit) own[lane] = exp_(shifted_of_distance(distance)) / sum;
            }
            if (probabilities && i < tile.end) probabilities[i] = own[lane];
        }
        best = Largest()(best, best_of_quad(own, uint32_t(first) / 4, noise));
    }
    best = block_reduce(best, Largest(), scratch);
    if (threadIdx.x == 0) atomicMax(&state.winner, (unsigned long long)best);
    if (!last_to_arrive(&state.arrivals, job.tiles, scratch) || threadIdx.x != 0) return;
    job.output.codes[tile.row] = winner_of(__ldcg(&state.winner));
    job.output.errors[tile.row] = state.error;
}

}  // namespace cpspec
