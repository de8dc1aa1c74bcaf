#pragma once
/// \file
/// Conversion of text to tokens and back, by BPE from a tokenizer.json, or by bytes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "added_tokens.hpp"
#include "byte_pairs.hpp"
#include "ecq/base/result.hpp"
#include "json_file.hpp"
#include "pre_tokenizer.hpp"
#include "spelling.hpp"

namespace llama {

/// Converts text to tokens and back. Every text, UTF-8 or not, survives the round trip byte for byte, except that some
/// tokenizers add a space in front of it, and that U+2581 comes back as a space where it marks spaces.
class tokenizer {
 public:
  /// Returns a tokenizer whose tokens are bytes, for models without a tokenizer.
  static tokenizer of_bytes();

  /// Makes a BPE tokenizer from the members of a tokenizer.json, of bytes (as in Llama 3 and Qwen2) or of characters
  /// (as in Llama 2 and Mistral), for a model whose vocabulary has `vocabulary` tokens. Errors: ecq::errc::unsupported
  /// for other tokenizers, normalizers and ways to split text, and for tokens that follow every text;
  /// ecq::errc::corrupt for tokens beyond the vocabulary, merges of tokens that do not exist, and members of the wrong
  /// type.
  static ecq::result<tokenizer> parse(const json& from, std::size_t vocabulary);

  /// Reads tokenizer.json in `folder`. If there are no files of a tokenizer, tokens are bytes, provided that
  /// `vocabulary` is at least 256. Errors name the file: those of parse(), ecq::errc::unsupported for a tokenizer in
  /// other files, and ecq::errc::not_found for no tokenizer and a smaller vocabulary.
  static ecq::result<tokenizer> load(const std::filesystem::path& folder, std::size_t vocabulary);

  /// Returns the tokens of `text`. Errors: ecq::errc::unsupported for a byte that no token stands for, and for text
  /// that may not be in normal form C (may_normalize) if the tokenizer would normalise it.
  ecq::result<std::vector<std::uint32_t>> encode(std::string_view text) const;

  /// Returns the text of `tokens`; numbers that are no token of this tokenizer become U+FFFD.
  std::string decode(std::span<const std::uint32_t> tokens) const;

  /// The tokens that begin every text, which encode() leaves out.
  const std::vector<std::uint32_t>& begin() const noexcept { return begin_; }

 private:
  tokenizer() = default;

  /// Reads one member of pre_tokenizer, or all of a sequence.
  ecq::result<void> read_pre_tokenizer(const json& from);

  ecq::result<void> read_metaspace(const json& from);

  /// Reads one member of normalizer, or all of a sequence.
  ecq::result<void> read_normalizer(const json& from);

  ecq::result<void> read_splitting(const json& from);
  ecq::result<void> add_text(std::uint64_t token, std::string text, std::string_view name, std::size_t vocabulary);
  ecq::result<void> read_vocabulary(const json& bpe, std::size_t vocabulary);
  std::optional<std::uint32_t> token_of(const std::string& name) const;

  /// Reads merges: "left right", or [left, right].
  ecq::result<void> read_merges(const json& bpe);

  ecq::result<void> read_added(const json& from, std::size_t vocabulary);

  /// Reads the tokens that begin a text: those before it in the template of post_processor.
  ecq::result<void> read_begin(const json& from, std::size_t vocabulary);
  ecq::result<void> read_template(const json& from, std::size_t vocabulary);

  static ecq::result<void> check_composed(std::string_view text);

  /// Returns the output of the normalizer for text from which the tokens of added_ are split off.
  std::string normalize(std::string_view text) const;

  /// Appends the tokens of text without added tokens, split by the patterns from `level` on. `first`: whether it begins
  /// a text.
  ecq::result<void> encode_plain(std::string_view text, std::size_t level, bool first,
                                 std::vector<std::uint32_t>& out) const;
  ecq::result<void> encode_pieces(std::string_view text, std::vector<std::uint32_t>& out) const;

  /// Whether a space is put in front of a piece of patterns_.
  bool needs_space(std::string_view text, bool first) const noexcept;

  /// Appends the tokens that merges begin with: those of bytes, or (add_characters) of the characters of a name.
  ecq::result<void> add_bytes(std::string_view text, std::vector<std::uint32_t>& out) const;
  ecq::result<void> add_characters(std::string_view name, std::vector<std::uint32_t>& out) const;

  /// Place where a space is put in front.
  enum class lead : std::uint8_t {
    none,
    normalizer,    ///< of the input of the normalizer
    unless_there,  ///< of each piece of patterns_ without one
    of_text        ///< of the first of these pieces, unless it has one
  };

  std::vector<std::optional<std::string>> texts_;         ///< the bytes of each token
  std::unordered_map<std::string, std::uint32_t> names_;  ///< tokens of the vocabulary by their names in the file
  std::array<std::optional<std::uint32_t>, 256> byte_tokens_{};
  added_tokens added_;             ///< found first
  added_tokens normalized_added_;  ///< found in the normalised text between those
  std::vector<std::uint32_t> begin_;
  byte_pairs pairs_;
  std::vector<split_pattern> patterns_;               ///< each splits the pieces of the one before it
  split_pattern last_pattern_ = split_pattern::none;  ///< splits pieces once they have their space
  spelling spelling_ = spelling::bytes;
  lead lead_ = lead::none;
  bool has_spelling_ = false;  ///< whether a member gives the spelling of names
  bool marks_early_ = false;   ///< whether the normalizer replaces spaces by marks
  bool composed_ = false;      ///< whether text has to be in normal form C
  bool whole_pieces_ = false;  ///< whether a piece that is a token needs no merges
};

}  // namespace llama
