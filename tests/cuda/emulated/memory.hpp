#pragma once
// Memory of the emulated device. As on a device, the host cannot reach it, unless a copy or a kernel is running. It
// lies between pages that nobody may touch and, under AddressSanitizer, is poisoned to the byte.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

#include "cuda/emulated/fiber.hpp"

namespace ecq_emulated {

class device_heap {
 public:
  static constexpr std::size_t capacity = std::size_t{1} << 30;

  static device_heap& only() {
    static device_heap heap;
    return heap;
  }

  /// Returns `size` bytes of garbage, aligned to 256 like those of a device; null if there is no room.
  std::byte* allocate(std::size_t size) {
    if (size > capacity - used_) return nullptr;
    const std::size_t inner = (size + page - 1) / page * page;
    void* const memory = mmap(next_, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    next_ += inner + 2 * page;
    const region made = {static_cast<std::byte*>(memory) + page, inner, size};
    protect(made, PROT_READ | PROT_WRITE);
    std::memset(made.begin, garbage, inner);
    ASAN_POISON_MEMORY_REGION(made.begin, inner);
    std::byte* const user = made.begin + (inner - (size + 255) / 256 * 256);  // ends where the next page begins
    ASAN_UNPOISON_MEMORY_REGION(user, size);
    if (!open_) protect(made, PROT_NONE);
    regions_.emplace(user, made);
    used_ += size;
    return user;
  }

  /// Releases an allocation; returns false if there is none at this address.
  bool release(std::byte* user) {
    const auto found = regions_.find(user);
    if (found == regions_.end()) return false;
    const region& old = found->second;
    ASAN_UNPOISON_MEMORY_REGION(old.begin, old.inner);
    protect(old, PROT_READ);
    for (std::byte* at = old.begin; at != old.begin + old.inner; ++at) {
      if ((at < user || at >= user + old.size) && *at != std::byte{garbage}) give_up("a write beside device memory");
    }
    munmap(old.begin - page, old.inner + 2 * page);
    used_ -= old.size;
    regions_.erase(found);
    return true;
  }

  /// Whether [at, at + size) lies in one allocation.
  bool holds(const void* at, std::size_t size) const {
    auto* const first = const_cast<std::byte*>(static_cast<const std::byte*>(at));
    auto found = regions_.upper_bound(first);
    if (found == regions_.begin()) return false;
    --found;
    const std::size_t offset = static_cast<std::size_t>(first - found->first);
    return offset <= found->second.size && size <= found->second.size - offset;
  }

  /// Whether `word` is the address of memory that belongs to the host and not to the device. Small addresses are taken
  /// for numbers.
  bool is_host_address(std::uint64_t word) const {
    if (word < std::uint64_t{1} << 45 || word >= std::uint64_t{1} << 47) return false;
    auto* const at = reinterpret_cast<std::byte*>(word);
    for (const auto& [user, one] : regions_) {
      if (at >= one.begin - page && at < one.begin + one.inner + page) return false;
    }
    unsigned char resident = 0;
    return mincore(reinterpret_cast<void*>(word / page * page), 1, &resident) == 0;
  }

  /// Gives the host access, so that it can play the device, or takes it away.
  void open(bool in) {
    open_ = in;
    for (const auto& [user, one] : regions_) protect(one, in ? PROT_READ | PROT_WRITE : PROT_NONE);
  }

 private:
  struct region {
    std::byte* begin;
    std::size_t inner;  ///< bytes between the guard pages
    std::size_t size;   ///< bytes that were requested
  };
  static constexpr std::size_t page = std::size_t{64} << 10;  // a multiple of every system's page size
  static constexpr int garbage = 0xCB;

  static void protect(const region& one, int how) {
    if (mprotect(one.begin, one.inner, how) != 0) give_up("device memory cannot be protected");
  }

  /// Address that the system is asked to give the next allocation, below all memory of the host: a kernel_weights may
  /// hold an address far in front of its matrix, which must not be taken for one of the host.
  std::byte* next_ = reinterpret_cast<std::byte*>(std::uintptr_t{3} << 43);
  std::map<std::byte*, region> regions_;
  std::size_t used_ = 0;
  bool open_ = false;
};

}  // namespace ecq_emulated
