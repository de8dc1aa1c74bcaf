#pragma once
/// \file
/// The instruction sets that the machine has, and the one that kernels use.

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "ecq/base/config.hpp"

#if ECQ_X86
#include <cpuid.h>
#endif
#if ECQ_NEON_DOT && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace ecq {

/// Instruction sets that kernels are written for, each including those before it on the same kind of machine. Results
/// do not depend on the choice, except that products in FP32 (matmul) are added in another order.
enum class instruction_set : unsigned char {
  automatic,  ///< the best one that the machine has
  scalar,     ///< plain C++, the definition
  neon,       ///< Advanced SIMD of 64-bit Arm, which all its machines have
  avx2,       ///< AVX2 with BMI1, BMI2, FMA and POPCNT
  avx512      ///< AVX-512 F, BW, DQ, VL, VBMI, VBMI2 and VPOPCNTDQ, with GFNI: Ice Lake, Zen 4 and later
};

/// All instruction sets, in ascending order.
inline constexpr instruction_set instruction_sets[] = {instruction_set::scalar, instruction_set::neon,
                                                       instruction_set::avx2, instruction_set::avx512};

/// Returns the name of an instruction set: "avx2" for instruction_set::avx2, and so on.
constexpr std::string_view name_of(instruction_set set) noexcept {
  switch (set) {
    case instruction_set::scalar: return "scalar";
    case instruction_set::neon: return "neon";
    case instruction_set::avx2: return "avx2";
    case instruction_set::avx512: return "avx512";
    case instruction_set::automatic: break;
  }
  return "automatic";
}

namespace detail {

/// Returns the value of an environment variable, or an empty text if it is not set.
inline std::string_view said_by(const char* variable) noexcept {
  const char* const value = std::getenv(variable);
  return value != nullptr ? value : "";
}

inline instruction_set detect_instruction_set() noexcept {
#if ECQ_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
      __builtin_cpu_supports("fma") && __builtin_cpu_supports("popcnt")) {
    const bool wide =
        ECQ_AVX512_EMULATED != 0 || (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                                     __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                                     __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("gfni"));
    return wide ? instruction_set::avx512 : instruction_set::avx2;
  }
#elif ECQ_NEON
  return instruction_set::neon;
#endif
  return instruction_set::scalar;
}

inline bool detect_integer_dots() noexcept {
#if ECQ_X86
  return detect_instruction_set() == instruction_set::avx512 &&
         (ECQ_AVX512_EMULATED != 0 || __builtin_cpu_supports("avx512vnni"));
#elif defined(__ARM_FEATURE_DOTPROD)
  return true;
#elif ECQ_NEON_DOT && defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
  return false;
#endif
}

/// Whether the processor has dot products of bytes for 256-bit registers (AVX-VNNI).
inline bool detect_avx_vnni() noexcept {
#if ECQ_X86
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned avx_vnni = 1U << 4;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & avx_vnni) != 0;
#else
  return false;
#endif
}

inline bool detect_integer_dots_avx2() noexcept {
  return said_by("ECQ_AVX_VNNI") != "0" && detect_instruction_set() >= instruction_set::avx2 &&
         (ECQ_AVX512_EMULATED != 0 || detect_avx_vnni());
}

inline bool detect_fast_bf16_dots() noexcept {
#if ECQ_X86
  return detect_instruction_set() == instruction_set::avx512 &&
         (ECQ_AVX512_EMULATED != 0 || (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd")));
#else
  return false;
#endif
}

/// Returns `detected`, unless the environment variable overrides it: 0, 1, or "other" for the opposite.
inline bool unless_said(const char* variable, bool detected) noexcept {
  const std::string_view said = said_by(variable);
  if (said == "0" || said == "1") return said == "1";
  return detected != (said == "other");
}

inline bool detect_fast_gathers() noexcept {
#if ECQ_X86
  __builtin_cpu_init();
  return ECQ_AVX512_EMULATED == 0 && __builtin_cpu_is("intel") && detect_avx_vnni();
#else
  return false;
#endif
}

inline bool detect_late_masks() noexcept {
#if ECQ_X86
  __builtin_cpu_init();
  return ECQ_AVX512_EMULATED == 0 && __builtin_cpu_is("amd") && detect_avx_vnni();
#else
  return false;
#endif
}

}  // namespace detail

/// Returns the best instruction set of this machine and its operating system.
inline instruction_set machine_instruction_set() noexcept {
  static const instruction_set found = detail::detect_instruction_set();
  return found;
}

/// Whether this machine has instructions for dot products of bytes, which extend instruction_set::avx512 (VNNI) or
/// 64-bit Arm (dotprod).
inline bool machine_has_integer_dots() noexcept {
  static const bool found = detail::detect_integer_dots();
  return found;
}

/// Whether this machine has dot products of bytes for 256-bit registers (AVX-VNNI), which extend instruction_set::avx2:
/// Intel's processors since Alder Lake, including those without AVX-512, and AMD's since Zen 5. The environment
/// variable ECQ_AVX_VNNI=0 at the first call makes the answer false; the library's results do not depend on it.
inline bool machine_has_integer_dots_avx2() noexcept {
  static const bool found = detail::detect_integer_dots_avx2();
  return found;
}

/// Whether this machine has dot products of BF16, which extend instruction_set::avx512, that are as fast as FMA in
/// FP32: AMD's processors since Zen 4. On Intel's, each takes four times as long as an FMA and does the work of two.
inline bool machine_has_fast_bf16_dots() noexcept {
  static const bool found = detail::detect_fast_bf16_dots();
  return found;
}

/// Whether gathers are faster than plain loads on this machine: on Intel's processors since Alder Lake and Sapphire
/// Rapids, the first ones with AVX-VNNI. AMD's processors run them as microcode, and the mitigation of gather data
/// sampling slows them down on Intel's earlier ones. The environment variable ECQ_GATHERS at the first call (0, 1 or
/// "other") overrides the answer; the library's results do not depend on it.
inline bool machine_has_fast_gathers() noexcept {
  static const bool found = detail::unless_said("ECQ_GATHERS", detail::detect_fast_gathers());
  return found;
}

/// Whether AVX-512 kernels on this machine spend more time waiting for masks than on operations: on AMD's processors
/// since Zen 5. More chunks side by side are then faster, although their states no longer fit in registers. On these
/// processors, the mask of a comparison reaches another operation after seven cycles, twice as many as on Intel's,
/// which shuffle half as much in a cycle. The environment variable ECQ_LATE_MASKS at the first call (0, 1 or "other")
/// overrides the answer; the library's results do not depend on it.
inline bool machine_has_late_masks() noexcept {
  static const bool found = detail::unless_said("ECQ_LATE_MASKS", detail::detect_late_masks());
  return found;
}

/// Returns `wanted`, or the best instruction set below it that the machine has, if the machine is older or of another
/// kind. `automatic` stands for the instruction set that the environment variable ECQ_CPU names (scalar, neon, avx2 or
/// avx512) at the first call, or else for the best one.
inline instruction_set chosen_instruction_set(instruction_set wanted) noexcept {
  static const instruction_set preferred = [] {
    const std::string_view name = detail::said_by("ECQ_CPU");
    for (const instruction_set set : instruction_sets) {
      if (name == name_of(set)) return set;
    }
    return instruction_set::avx512;
  }();
  const auto best = (std::min)(wanted == instruction_set::automatic ? preferred : wanted, machine_instruction_set());
  return best == instruction_set::neon && ECQ_NEON == 0 ? instruction_set::scalar : best;
}

/// Whether this machine has `set`.
inline bool machine_has(instruction_set set) noexcept { return chosen_instruction_set(set) == set; }

}  // namespace ecq
