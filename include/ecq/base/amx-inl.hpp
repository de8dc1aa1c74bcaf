#pragma once
/// \file
/// Definition of machine_has_amx().

#include "ecq/base/amx.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"

#if ECQ_X86 && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ecq {

namespace detail {

inline bool detect_amx() noexcept {
#if ECQ_X86 && defined(__linux__)
  if (said_by("ECQ_AMX") == "0" || detect_instruction_set() != instruction_set::avx512) return false;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned bf16_tile_and_int8 = 1U << 22 | 1U << 24 | 1U << 25;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & bf16_tile_and_int8) != bf16_tile_and_int8) return false;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned shapes_and_tiles = 1U << 17 | 1U << 18;
  if ((low & shapes_and_tiles) != shapes_and_tiles) return false;
  // Linux lets a process use the tile registers only after it has asked for them.
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

}  // namespace detail

ECQ_INLINE bool machine_has_amx() noexcept {
  static const bool found = detail::detect_amx();
  return found;
}

}  // namespace ecq
