// Finds added tokens in a text, from left to right.

#include "added_tokens.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace llama {

void added_tokens::add(std::string text, std::uint32_t token) {
  auto& all = by_first_byte_[static_cast<unsigned char>(text[0])];
  const auto place =
      std::ranges::find_if(all, [&](const added_token& other) { return other.text.size() < text.size(); });
  all.insert(place, {std::move(text), token});
}

bool added_tokens::has(std::string_view text) const noexcept {
  const added_token* const longest = at(text);
  return longest != nullptr && longest->text == text;
}

void added_tokens::split(std::string_view text,
                         const std::function<void(std::string_view piece, const std::uint32_t* token)>& use) const {
  std::size_t begin = 0;  // of the text that no added token has taken
  for (std::size_t place = 0; place < text.size();) {
    const added_token* const added = at(text.substr(place));
    if (added == nullptr) {
      ++place;
      continue;
    }
    if (begin != place) use(text.substr(begin, place - begin), nullptr);
    use(added->text, &added->token);
    begin = place += added->text.size();
  }
  if (begin != text.size()) use(text.substr(begin), nullptr);
}

const added_tokens::added_token* added_tokens::at(std::string_view text) const noexcept {
  const auto& candidates = by_first_byte_[static_cast<unsigned char>(text[0])];
  const auto found =
      std::ranges::find_if(candidates, [&](const added_token& each) { return text.starts_with(each.text); });
  return found == candidates.end() ? nullptr : &*found;
}

}  // namespace llama
