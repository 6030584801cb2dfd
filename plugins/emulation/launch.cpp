#include "launch.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

namespace emulation {

Grid current_grid;

namespace {

std::string fault;
Deferred deferred;

std::string refused(Dim3 grid, Dim3 block, std::size_t dynamic_bytes) {
    const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > kMaxThreads) return "a block has 1 to 1024 threads, not " + std::to_string(threads);
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return "the grid is empty";
    if (grid.y > 65535 || grid.z > 65535) return "the grid has more than 65535 blocks in y or z";
    if (dynamic_bytes > SharedMemory::kDynamicLimit)
        return "the launch asks for " + std::to_string(dynamic_bytes) + " bytes of dynamic shared memory";
    return {};
}

}  // namespace

Options& options() {
    static Options values;
    return values;
}

const std::string& last_fault() { return fault; }

Deferred take_deferred() { return std::exchange(deferred, {}); }

void clear(void* memory, std::size_t bytes) {
    const auto now = [memory, bytes] { return std::memset(memory, 0, bytes) == memory; };
    if (options().deferred)
        deferred.emplace_back(now);
    else
        now();
}

bool run_grid(const char* name, Dim3 grid, Dim3 block, std::size_t dynamic_bytes, const std::function<void()>& kernel) {
    static std::mutex one_launch_at_a_time;
    const std::lock_guard<std::mutex> lock(one_launch_at_a_time);
    static Block runner;

    fault = refused(grid, block, dynamic_bytes);
    if (options().deferred && fault.empty()) {
        deferred.emplace_back([=] { return run_grid(name, grid, block, dynamic_bytes, kernel); });
        return true;
    }
    std::mt19937_64 random(options().seed);
    std::vector<std::uint64_t> order(fault.empty() ? std::uint64_t{grid.x} * grid.y * grid.z : 0);
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    if (options().seed) std::shuffle(order.begin(), order.end(), random);
    for (std::uint64_t linear : order) {
        const std::uint64_t plane = std::uint64_t{grid.x} * grid.y;
        const Index index{static_cast<unsigned>(linear % grid.x), static_cast<unsigned>(linear / grid.x % grid.y),
                          static_cast<unsigned>(linear / plane)};
        current_grid = {index, block, grid};
        const std::uint64_t seed = options().seed ? random() | 1 : 0;
        if (runner.run(kernel, block, dynamic_bytes, seed, options().poison)) continue;
        fault = "block (" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) +
                "): " + runner.fault();
        break;
    }
    if (!fault.empty()) fault = std::string(name) + ": " + fault;
    return fault.empty();
}

}  // namespace emulation
