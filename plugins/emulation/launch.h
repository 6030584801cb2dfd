// Runs a grid, block after block, in an order shuffled by the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "block.h"

namespace emulation {

struct Dim3 : Index {
    Dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1) : Index{x_size, y_size, z_size} {}
};

struct Grid {
    Index block_index;
    Index block_size, grid_size;
};
extern Grid current_grid;

struct Options {
    std::uint64_t seed = 0;  // 0 keeps threads and blocks in their natural order
    bool poison = true;
    unsigned block_threads = 256;  // what launchers that ask are told to use
    bool deferred = false;         // launches are kept instead of run (see Deferred)
};
Options& options();

// What a stream would hold: launches and clears with all their arguments, to be run later, as often as wanted.
using Deferred = std::vector<std::function<bool()>>;

// Everything deferred since the last call.
Deferred take_deferred();

// Zeros, now or deferred.
void clear(void* memory, std::size_t bytes);

// The fault of the last launch, with the kernel's name; empty after a launch without one.
const std::string& last_fault();

// False when the launch or, unless it is deferred, the kernel broke a rule of CUDA.
bool run_grid(const char* name, Dim3 grid, Dim3 block, std::size_t dynamic_bytes, const std::function<void()>& kernel);

template <class... Parameters, class... Arguments>
bool launch(const char* name, void (*kernel)(Parameters...), Dim3 grid, Dim3 block, std::size_t dynamic_bytes,
            Arguments&&... arguments) {
    const std::tuple<Parameters...> bound(std::forward<Arguments>(arguments)...);
    return run_grid(name, grid, block, dynamic_bytes, [kernel, bound] { std::apply(kernel, bound); });
}

}  // namespace emulation
