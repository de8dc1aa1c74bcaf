#pragma once
/// \file
/// Definition of the choice of a coder for many streams.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/methods/joint_code.hpp"
#include "ecq/stream/stream_encoder.hpp"

namespace ecq::detail {

template <entropy_coder... Coders>
coder_id expected_smallest_of(smallest_of<Coders...>, const histogram& counts, std::uint64_t chunks,
                              std::uint64_t streams) {
  coder_id best{};
  std::optional<std::uint64_t> least;
  const auto weigh = [&]<class Coder>(Coder) {
    const auto plan = Coder::plan({&counts, 1});
    std::vector<std::byte> record;
    plan.tables[0].append_to(record);
    const std::uint64_t bits =
        plan.bits + plan.map.bits * counts.total() + 8 * (Coder::state_bytes * chunks + record.size() * streams);
    if (least && bits >= *least) return;
    least = bits;
    best = Coder::id;
  };
  (weigh(Coders{}), ...);
  return best;
}

ECQ_INLINE coder_id expected_smallest(const histogram& counts, std::uint64_t chunks, std::uint64_t streams) {
  return expected_smallest_of(smallest_any{}, counts, chunks, streams);
}

}  // namespace ecq::detail
