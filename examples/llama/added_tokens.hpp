#pragma once
/// \file
/// Tokens that stand for a text of their own, wherever it appears.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace llama {

/// Texts that become one token each before anything else splits what lies between them.
class added_tokens {
 public:
  /// Precondition: `text` is not empty.
  void add(std::string text, std::uint32_t token);

  /// Whether exactly this text was added. Precondition: it is not empty.
  bool has(std::string_view text) const noexcept;

  /// Calls `use(piece, token)` for all parts of `text` in order: with the token where an added text stands, and with
  /// null for what lies between. Of texts that begin at one place, the longest counts.
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
