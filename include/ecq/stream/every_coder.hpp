#pragma once
/// \file
/// All coders of this library, for programs that decode streams of any coder.

#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gaps.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/entropy/raw.hpp"
#include "ecq/entropy/tans/tans.hpp"
#include "ecq/stream/coder_set.hpp"
#include "ecq/stream/stream_header.hpp"

namespace ecq {

/// Set of all coders of this library, the default for decoding calls that name no coders.
struct every_coder {
  operator coder_set() const noexcept;

  static constexpr bool names_coder(coder_id) noexcept { return true; }
};

static_assert(coder_names<every_coder>);

/// Calls `use(Coder{})` with the coder of number `id`, and returns its result<void>. Errors: errc::unsupported for
/// unknown numbers.
template <class Use>
result<void> with_coder(coder_id id, Use&& use) {
  switch (id) {
    case coder_id::raw: return use(raw{});
    case coder_id::rans: return use(rans{});
    case coder_id::tans: return use(tans{});
    case coder_id::huffman: return use(huffman{});
    case coder_id::huffman_gaps: return use(huffman_gaps{});
  }
  return detail::stream_error(errc::unsupported, "coder ", static_cast<unsigned>(id));
}

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/stream/every_coder-inl.hpp"
#endif
