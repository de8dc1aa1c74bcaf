#pragma once
/// \file
/// Replaces the library's header where the registers of AMX are emulated: machine_has_amx() is true wherever AVX-512 is
/// used, unless ECQ_AMX is 0.

#include "ecq/base/amx.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"

namespace ecq {

ECQ_INLINE bool machine_has_amx() noexcept {
  static const bool found =
      detail::said_by("ECQ_AMX") != "0" && detail::detect_instruction_set() == instruction_set::avx512;
  return found;
}

}  // namespace ecq
