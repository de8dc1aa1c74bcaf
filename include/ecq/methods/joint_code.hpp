#pragma once
/// \file
/// One code for the streams of a whole model.

#include <cstdint>
#include <optional>

#include "ecq/base/config.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/histogram.hpp"

namespace ecq::detail {

/// Code that all streams of a model share: its coder makes one table from the counts, and every stream carries that
/// table.
struct joint_code {
  histogram counts;
  std::optional<coder_id> coder;  ///< empty: not chosen here
};

/// Returns the coder of smallest_any whose streams are expected to be smallest in total, counting words, states and
/// tables; of equals, the first.
coder_id expected_smallest(const histogram& counts, std::uint64_t chunks, std::uint64_t streams);

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/methods/joint_code-inl.hpp"
#endif
