#pragma once
/// \file
/// Added tokens: each stands for a text of its own, wherever it appears.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace llama {

/// Texts that become one token each. They are found before anything else splits the text between them.
class added_tokens {
 public:
  /// Adds a text and its token. Precondition: `text` is not empty.
  void add(std::string text, std::uint32_t token);

  /// Whether exactly this text was added. Precondition: it is not empty.
  bool has(std::string_view text) const noexcept;

  /// Calls `use(piece, token)` for all parts of `text` in order: with the token for an added text, and with null for
  /// the text between added texts. Of several added texts that begin at one place, the longest counts.
  void split(std::string_view text,
             const std::function<void(std::string_view piece, const std::uint32_t* token)>& use) const;

 private:
  struct added_token {
    std::string text;
    std::uint32_t token;
  };

  const added_token* at(std::string_view text) const noexcept;

  std::array<std::vector<added_token>, 256> by_first_byte_{};  ///< the longest first
};

}  // namespace llama
