#pragma once
/// \file
/// The coder for data that do not compress: every code is stored as its 8 raw bits.

#include "ecq/entropy/entropy_coder.hpp"

namespace ecq {

/// A coder that codes nothing: its symbol map leaves all 8 bits raw, and its tables, states and words are empty.
struct raw {
  static constexpr std::string_view name = "raw";
  static constexpr coder_id id = coder_id::raw;
  static constexpr std::size_t state_bytes = 0;

  struct table {
    void append_to(std::vector<std::byte>&) const {}
    static result<table> read(std::span<const std::byte>, std::size_t&, split_map) { return table{}; }
  };

  struct encoder {
    encoder(const table&, split_map) {}
    std::size_t encode(std::span<const std::uint8_t>, std::byte*, std::span<std::uint16_t>) const { return 0; }
  };

  struct decoder {
    decoder(const table&, split_map) {}
    errc decode(const chunk_bytes& chunk, std::uint8_t*) const {
      return chunk.word_count == 0 ? errc::ok : errc::corrupt;
    }
  };

  static coding_plan<table> plan(std::span<const histogram> classes, unsigned = 7) {
    return {.map = {8}, .tables = std::vector<table>(classes.size()), .bits = 0};
  }
};

static_assert(entropy_coder<raw>);

}  // namespace ecq
