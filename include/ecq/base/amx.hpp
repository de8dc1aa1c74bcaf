#pragma once
/// \file
/// Detection of units that multiply tiles of matrices (AMX).

#include "ecq/base/config.hpp"

namespace ecq {

/// Whether this machine has units that multiply tiles of BF16 and of bytes (AMX), which extend instruction_set::avx512,
/// and Linux lets this process use them. Intel's servers have them since Sapphire Rapids. The first call asks Linux for
/// permission, for all threads. From then on, alternate signal stacks (sigaltstack) need room for the tiles, several
/// KiB; if an existing one lacks it, Linux refuses and the result is false. The environment variable ECQ_AMX=0 at the
/// first call makes the result false; sums of integers do not depend on it.
bool machine_has_amx() noexcept;

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/base/amx-inl.hpp"
#endif
