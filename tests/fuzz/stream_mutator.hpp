#pragma once
/// \file
/// Damages streams where it hurts: within sections, so that most checks accept the result as a stream.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/codes.hpp"
#include "support/seal.hpp"

namespace ecq_test {

/// Mutator of streams. It is deterministic: the same seed and bytes give the same changes.
class stream_mutator {
 public:
  explicit stream_mutator(std::uint64_t seed) : random_(seed) {}

  /// Makes one to three changes; checksums are left wrong.
  void mutate(std::vector<std::byte>& blob) {
    for (std::size_t changes = below(4) == 0 ? 1 + below(3) : 1; changes > 0 && !blob.empty(); --changes) {
      switch (below(32)) {
        case 0: cut(blob); break;
        case 1:
        case 2: cut_words(blob); break;
        default: change(blob, pick_section(blob));
      }
    }
  }

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>((random_.next() >> 11) % limit); }

  /// Picks a section, most often tables or words; all bytes if the stream has no such section, or is no stream.
  ecq::section pick_section(const std::vector<std::byte>& blob) {
    // Header and directory, then sections by kind; 6 and 7 are not kinds of sections.
    static constexpr unsigned weights[] = {2, 7, 4, 6, 2, 9, 0, 0, 2, 1};
    std::size_t wanted = below(33);
    std::size_t kind = 0;
    while (wanted >= weights[kind]) wanted -= weights[kind++];
    ecq::section found{0, blob.size()};
    if (kind == 0) {
      found.size = (std::min)(found.size, ecq::stream_header::fixed_bytes + 5 * ecq::stream_header::entry_bytes);
    }
    for_each_section(blob, [&](std::size_t, ecq::section_kind is, ecq::section part) {
      if (static_cast<std::size_t>(is) == kind && part.size != 0) found = part;
    });
    return found;
  }

  void change(std::vector<std::byte>& blob, ecq::section part) {
    const std::size_t size = static_cast<std::size_t>(part.size);
    std::byte* const bytes = blob.data() + part.offset;
    const auto add = [&]<class Word>(std::size_t at, Word value) {
      ecq::store_le(bytes + at, static_cast<Word>(ecq::load_le<Word>(bytes + at) + value));
    };
    const auto little = [&] { return static_cast<std::uint16_t>(1 + below(below(2) == 0 ? 3 : 300)); };
    switch (below(10)) {
      case 0:
      case 1: bytes[below(size)] ^= static_cast<std::byte>(1U << below(8)); return;
      case 2: bytes[below(size)] = static_cast<std::byte>(below(256)); return;
      case 3: {
        static constexpr unsigned extremes[] = {0, 1, 16, 32, 0x7F, 0x80, 0xFE, 0xFF};
        bytes[below(size)] = static_cast<std::byte>(extremes[below(8)]);
        return;
      }
      case 4: std::swap(bytes[below(size)], bytes[below(size)]); return;
      case 5: {  // a run repeated or moved
        const std::size_t count = 1 + below((std::min)(size, std::size_t{16}));
        const std::size_t from = below(size - count + 1);
        std::copy_n(std::vector<std::byte>(bytes + from, bytes + from + count).begin(), count,
                    bytes + below(size - count + 1));
        return;
      }
      default: break;
    }
    if (size < 8) return change(blob, {0, blob.size()});
    const std::size_t last = (size - 2) / 2;
    switch (below(4)) {
      case 0:
      case 1: {  // from one frequency to another: their sum stays
        const auto amount = static_cast<std::uint16_t>(little() - 1);
        add(2 * below(last + 1), amount);
        return add(2 * below(last + 1), static_cast<std::uint16_t>(-amount));
      }
      case 2: return add(2 * below(last + 1), static_cast<std::uint16_t>(below(2) == 0 ? little() : -little()));
      default: {
        const std::uint64_t amount = below(2) == 0 ? std::uint64_t{little()} : ~std::uint64_t{0} - little();
        return add(8 * below((size - 8) / 8 + 1), amount);
      }
    }
  }

  /// Cuts the stream anywhere; every other time the header is changed to match.
  void cut(std::vector<std::byte>& blob) {
    blob.resize(below(blob.size()));
    if (blob.size() < ecq::stream_header::fixed_bytes || below(2) == 0) return;
    blob.resize(blob.size() / ecq::stream_header::alignment * ecq::stream_header::alignment);
    ecq::store_le(&blob[32], std::uint64_t{blob.size()});
  }

  /// Removes the last words, and changes all places that state their number.
  void cut_words(std::vector<std::byte>& blob) {
    std::size_t words_entry = 0;
    ecq::section words;
    ecq::section index;
    for_each_section(blob, [&](std::size_t entry, ecq::section_kind kind, ecq::section part) {
      if (kind == ecq::section_kind::words) words = part, words_entry = entry;
      if (kind == ecq::section_kind::chunk_index) index = part;
    });
    if (words.size < 4 || index.size < ecq::chunk_record::bytes) return;
    const std::uint64_t left = 1 + below((std::min)(static_cast<std::size_t>(words.size) / 2 - 1, std::size_t{64}));
    const std::uint64_t kept = words.size / 2 - left;
    std::fill_n(blob.begin() + static_cast<std::ptrdiff_t>(words.offset + 2 * kept), 2 * left, std::byte{0});
    ecq::store_le(&blob[words_entry + 16], 2 * kept);
    ecq::store_le(&blob[static_cast<std::size_t>(index.offset + index.size - ecq::chunk_record::bytes)], kept);
  }

  code_source random_;
};

}  // namespace ecq_test
