#pragma once
/// \file
/// Narrow pairs of codes of one byte. Each code is one of at most eight symbols, plus raw bits. So there are at most 64
/// different pairs, and a decoder's tables fit in registers (docs/format.md, symbol map pairs).

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

/// Counts of the pairs that codes of one byte form.
class code_pair_counts {
 public:
  /// Prepares counters for all pairs of the codes that occur in `codes`. Takes 8 bytes of memory per pair.
  explicit code_pair_counts(const histogram& codes);

  /// Counts the pairs of a chunk. Precondition: its codes occur in the histogram given to the constructor.
  void add(std::span<const std::uint8_t> chunk);
  code_pair_counts& operator+=(const code_pair_counts& other);

  /// Returns the histogram of the bytes that a coder sees if the pairs are coded by `pairing`.
  histogram coded(const symbol_pairing& pairing) const;

 private:
  std::array<std::uint8_t, 256> number_{};  ///< number of each code that occurs
  std::vector<std::uint8_t> codes_;         ///< codes that occur, by number
  std::vector<std::uint64_t> pairs_;        ///< by the number of the first code, then of the second
  histogram odd_;                           ///< last codes of chunks, without a second one
};

/// Returns the pairing of codes that occur as `counts` says, with `raw_bits` (0..7) raw bits. A symbol serves
/// 2^raw_bits codes from itself on. If eight symbols do not serve all codes, or if `escapes` is set, only seven have
/// nibbles, and the codes that they do not serve are escaped.
symbol_pairing narrow_pairing(const histogram& counts, unsigned raw_bits, bool escapes = false);

/// Escapes one or both codes of the rarest pairs until at most `most` (8 or more) different pairs are coded. `pairs`
/// counts the pairs of `pairing`, which narrow_pairing() made with escapes.
void escape_rare_pairs(symbol_pairing& pairing, histogram pairs, std::size_t most);

/// Pairing, if codes are paired, and the histograms of the coded pairs of each class, if they have been counted.
struct narrow_choice {
  std::optional<symbol_pairing> pairing{};
  std::vector<histogram> pairs{};
};

/// Chooses the pairing that makes the stream of `chunked` smallest, by the exact counts of its pairs, or one of few
/// pairs if that costs next to nothing. Chooses none if options.goal asks for single codes, or if pairs take more than
/// pair_allowance beyond single codes. `classes` are the histograms of the codes. Shared counts, if there are any,
/// decide alone.
result<narrow_choice> choose_narrow_pairing(const cpu& backend, const chunked_elements& chunked,
                                            const stream_options& options, std::span<const histogram> classes);

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/stream/narrow_pairs-inl.hpp"
#endif
