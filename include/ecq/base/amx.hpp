#pragma once
/// \file
/// Whether the machine has units that multiply tiles of matrices (AMX).

#include "ecq/base/config.hpp"

namespace ecq {

/// Whether this machine has units that multiply tiles of BF16 and of bytes (AMX), which extend instruction_set::avx512,
/// and Linux lends them to this process: Intel's servers since Sapphire Rapids. The first call asks for them, for all
/// threads; from then on Linux wants alternate signal stacks (sigaltstack) to have room for them, several KiB, and
/// where one has not, there are none. The environment variable ECQ_AMX=0 at the first call says that there are none;
/// sums of integers do not depend on it.
bool machine_has_amx() noexcept;

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/base/amx-inl.hpp"
#endif
