#pragma once
/// \file
/// Text to tokens and back: BPE from a tokenizer.json, or bytes.

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

/// Text as tokens. Every text, be it UTF-8 or not, comes back from its tokens byte for byte, but for the space in front
/// of it that some tokenizers add, and for U+2581, which comes back as a space where it marks spaces.
class tokenizer {
 public:
  /// Tokens are bytes: those of models without a tokenizer.
  static tokenizer of_bytes();

  /// A BPE tokenizer from the members of a tokenizer.json, of bytes (as Llama 3 and Qwen2 have it) or of characters (as
  /// Llama 2 and Mistral have it), for a model whose vocabulary has `vocabulary` tokens. Errors: ecq::errc::unsupported
  /// for other tokenizers, normalizers, ways to split text and tokens behind it; ecq::errc::corrupt for tokens beyond
  /// the vocabulary, merges of tokens that do not exist, and members of another type than they should have.
  static ecq::result<tokenizer> parse(const json& from, std::size_t vocabulary);

  /// Reads tokenizer.json in `folder`; where no file is a tokenizer's, tokens are bytes, if `vocabulary` has 256 of
  /// them. Errors name the file, and are those of parse(), and ecq::errc::unsupported for a tokenizer in other files.
  static ecq::result<tokenizer> load(const std::filesystem::path& folder, std::size_t vocabulary);

  /// The tokens of `text`. Errors: ecq::errc::unsupported for a byte that no token stands for, and for text that may
  /// not be in normal form C (may_normalize) where the tokenizer would normalize it.
  ecq::result<std::vector<std::uint32_t>> encode(std::string_view text) const;

  /// The text of `tokens`; those that are no token of this tokenizer become U+FFFD.
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

  /// Reads which tokens a text begins with: those before it in the template of post_processor.
  ecq::result<void> read_begin(const json& from, std::size_t vocabulary);
  ecq::result<void> read_template(const json& from, std::size_t vocabulary);

  static ecq::result<void> check_composed(std::string_view text);

  /// What the normalizer makes of text without the added tokens that are looked for first.
  std::string normalize(std::string_view text) const;

  /// Appends the tokens of text without added tokens, split by the patterns from `level` on. `first`: it begins a text.
  ecq::result<void> encode_plain(std::string_view text, std::size_t level, bool first,
                                 std::vector<std::uint32_t>& out) const;
  ecq::result<void> encode_pieces(std::string_view text, std::vector<std::uint32_t>& out) const;

  /// Whether a space is put in front of a piece of patterns_.
  bool needs_space(std::string_view text, bool first) const noexcept;

  /// Appends what merges begin with: the tokens of bytes, or of the characters of a name.
  ecq::result<void> add_bytes(std::string_view text, std::vector<std::uint32_t>& out) const;
  ecq::result<void> add_characters(std::string_view name, std::vector<std::uint32_t>& out) const;

  /// Where a space is put in front.
  enum class lead : std::uint8_t {
    none,
    normalizer,    ///< of what the normalizer gets
    unless_there,  ///< of pieces of patterns_
    of_text        ///< of the first of them, unless it is there
  };

  std::vector<std::optional<std::string>> texts_;         ///< the bytes of each token
  std::unordered_map<std::string, std::uint32_t> names_;  ///< tokens of the vocabulary by what the file calls them
  std::array<std::optional<std::uint32_t>, 256> byte_tokens_{};
  added_tokens added_;             ///< are looked for first
  added_tokens normalized_added_;  ///< are looked for in what these leave
  std::vector<std::uint32_t> begin_;
  byte_pairs pairs_;
  std::vector<split_pattern> patterns_;               ///< each splits the pieces of the one before it
  split_pattern last_pattern_ = split_pattern::none;  ///< splits pieces that have got their space
  spelling spelling_ = spelling::bytes;
  lead lead_ = lead::none;
  bool has_spelling_ = false;  ///< some member says how names spell text
  bool marks_early_ = false;   ///< the normalizer makes marks of spaces
  bool composed_ = false;      ///< text has to be in normal form C
  bool whole_pieces_ = false;  ///< a piece that is a token is not made of merges
};

}  // namespace llama
