// Shared memory of the block that runs: poisoned when it starts, watched at its edges.
#pragma once

#include <cstddef>
#include <vector>

namespace emulation {

// Objects lie apart from one another. The gaps hold a pattern that is checked when the block ends, and are closed
// to AddressSanitizer where that is on; behind the last byte of the arena lies a page that may not be touched.
class SharedMemory {
public:
    static constexpr std::size_t kStaticLimit = 48 * 1024;    // what CUDA grants declared objects
    static constexpr std::size_t kDynamicLimit = 99 * 1024;   // what every device since sm_80 grants on request

    SharedMemory();
    ~SharedMemory();
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;

    // Forgets every object and gives the block `dynamic_bytes`. With `poison`, every byte is 0xFF at first: NaN as a
    // float and -1 as an integer, so that a value read before it is written shows.
    void start_block(std::size_t dynamic_bytes, bool poison);

    // The object declared at `site`; the first thread that asks makes it. Null when static memory is used up.
    void* object(const void* site, std::size_t bytes);

    // 16-byte aligned, exactly the bytes that the launch asked for.
    void* dynamic() const { return dynamic_; }

    // Whether no thread wrote beside an object.
    bool gaps_intact() const;

private:
    struct Object {
        const void* site;  // null for the dynamic memory
        char* begin;
        char* end;
        char* gap_end;
    };
    void add(const void* site, char* begin, std::size_t bytes, char* gap_end);

    char* arena_;
    char* dynamic_ = nullptr;
    char* free_ = nullptr;  // where the next declared object goes
    std::size_t declared_ = 0;
    bool poison_ = true;
    std::vector<Object> objects_;
};

}  // namespace emulation
