#include "shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define __asan_poison_memory_region(begin, bytes)
#define __asan_unpoison_memory_region(begin, bytes)
#endif

namespace emulation {

namespace {

constexpr std::size_t kGap = 64;
constexpr std::size_t kAlignment = 16;
constexpr unsigned char kGapByte = 0xC3;
constexpr unsigned char kPoisonByte = 0xFF;
// Declared objects with a gap after each, however small they are, and dynamic memory at the end.
constexpr std::size_t kArena = 5 * SharedMemory::kStaticLimit + SharedMemory::kDynamicLimit + 2 * kGap;

std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

std::size_t arena_bytes() { return rounded(kArena, page_bytes()); }

bool untouched(const char* begin, const char* end) {
    for (; begin < end; ++begin)
        if (static_cast<unsigned char>(*begin) != kGapByte) return false;
    return true;
}

}  // namespace

SharedMemory::SharedMemory() {
    void* memory =
        mmap(nullptr, arena_bytes() + page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        std::perror("emulation: cannot map shared memory");
        std::abort();
    }
    arena_ = static_cast<char*>(memory);
    mprotect(arena_ + arena_bytes(), page_bytes(), PROT_NONE);
}

SharedMemory::~SharedMemory() {
    __asan_unpoison_memory_region(arena_, arena_bytes());
    munmap(arena_, arena_bytes() + page_bytes());
}

void SharedMemory::start_block(std::size_t dynamic_bytes, bool poison) {
    objects_.clear();
    poison_ = poison;
    declared_ = 0;
    free_ = arena_ + kGap;
    char* arena_end = arena_ + arena_bytes();
    dynamic_ = arena_end - rounded(dynamic_bytes, kAlignment);  // as near to the guard page as alignment allows
    __asan_poison_memory_region(arena_, arena_bytes());
    add(nullptr, dynamic_, dynamic_bytes, arena_end);
}

void* SharedMemory::object(const void* site, std::size_t bytes) {
    for (const Object& known : objects_)
        if (known.site == site) return known.begin;
    const std::size_t room = rounded(bytes, kAlignment);
    if (declared_ + room > kStaticLimit) return nullptr;
    char* begin = free_;
    declared_ += room;
    free_ += room + kGap;
    add(site, begin, bytes, begin + bytes + kGap);
    return begin;
}

void SharedMemory::add(const void* site, char* begin, std::size_t bytes, char* gap_end) {
    const Object object{site, begin, begin + bytes, gap_end};
    objects_.push_back(object);
    if (!poison_) {
        __asan_unpoison_memory_region(begin, bytes);
        return;
    }
    __asan_unpoison_memory_region(begin - kGap, static_cast<std::size_t>(gap_end - begin) + kGap);
    std::memset(begin - kGap, kGapByte, kGap);
    std::memset(begin, kPoisonByte, bytes);
    std::memset(object.end, kGapByte, static_cast<std::size_t>(gap_end - object.end));
    __asan_poison_memory_region(begin - kGap, kGap);
    __asan_poison_memory_region(object.end, static_cast<std::size_t>(gap_end - object.end));
}

bool SharedMemory::gaps_intact() const {
    __asan_unpoison_memory_region(arena_, arena_bytes());
    if (!poison_) return true;
    bool intact = true;
    for (const Object& object : objects_)
        intact = intact && untouched(object.begin - kGap, object.begin) && untouched(object.end, object.gap_end);
    return intact;
}

}  // namespace emulation
