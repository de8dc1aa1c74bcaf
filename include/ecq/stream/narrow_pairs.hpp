#pragma once
/// \file
/// Narrow pairs of codes of one byte: a code is one of at most eight symbols, plus raw bits. So there are at most 64
/// pairs, and a decoder's tables fit in registers (docs/format.md, symbol map pairs).

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/stream/chunked_elements.hpp"
#include "ecq/stream/stream_options.hpp"
#include "ecq/stream/symbol_pairing.hpp"

namespace ecq::detail {

/// How often codes of one byte occur beside each other in pairs.
class code_pair_counts {
 public:
  /// Counts of pairs of the codes that occur in `codes`: 8 bytes for each pair of them.
  explicit code_pair_counts(const histogram& codes);

  /// Counts the pairs of a chunk. Precondition: its codes occur in those given above.
  void add(std::span<const std::uint8_t> chunk);
  code_pair_counts& operator+=(const code_pair_counts& other);

  /// The histogram of the bytes that a coder sees of them.
  histogram coded(const symbol_pairing& pairing) const;

 private:
  std::array<std::uint8_t, 256> number_{};  ///< of each code that occurs
  std::vector<std::uint8_t> codes_;         ///< by number
  std::vector<std::uint64_t> pairs_;        ///< by the number of the first code, then of the second
  histogram odd_;                           ///< last codes of chunks, without a second one
};

/// The pairing of codes that occur as `counts` says, with `raw_bits` (0..7) raw bits. A symbol serves 2^raw_bits codes
/// from itself on. If eight do not serve all codes, seven have nibbles, and the codes that those do not serve are
/// escaped; seven as well if `escapes`.
symbol_pairing narrow_pairing(const histogram& counts, unsigned raw_bits, bool escapes = false);

/// Escapes one or both codes of the rarest of `pairs`, which narrow_pairing() made with escapes, until at most `most`
/// (8 or more) different ones are coded.
void escape_rare_pairs(symbol_pairing& pairing, histogram pairs, std::size_t most);

/// A pairing, and the histograms of the coded pairs of each class where they have been counted.
struct narrow_choice {
  std::optional<symbol_pairing> pairing{};
  std::vector<histogram> pairs{};
};

/// The pairing that makes the stream of `chunked` smallest, by the exact counts of its pairs, or one of few pairs if
/// that costs next to nothing; nothing if options.goal asks for single codes, or pairs take more than pair_allowance
/// beyond those. `classes` are the histograms of the codes. With shared counts, these alone decide.
result<narrow_choice> choose_narrow_pairing(const cpu& backend, const chunked_elements& chunked,
                                            const stream_options& options, std::span<const histogram> classes);

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/stream/narrow_pairs-inl.hpp"
#endif
