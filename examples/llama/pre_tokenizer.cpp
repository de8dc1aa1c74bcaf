// Splits text as the regular expressions of tokenizers do, without a regular-expression engine.

#include "pre_tokenizer.hpp"

#include <algorithm>

#include "ecq/base/utf8.hpp"

namespace llama {

namespace {

/// Finds the end of the piece that begins at a character.
class piece_matcher {
 public:
  piece_matcher(std::string_view text, split_pattern pattern)
      : text_(text),
        pattern_(pattern),
        llama3_(pattern == split_pattern::llama3 || pattern == split_pattern::qwen2),
        all_(detail::characters_of(text)) {}

  std::size_t characters() const noexcept { return all_.size(); }
  /// Returns the byte at which character `index` begins, or the size of the text for the index after the last
  /// character.
  std::size_t byte_of(std::size_t index) const noexcept {
    return index < all_.size() ? all_[index].begin : text_.size();
  }

  /// Returns the character after the piece that begins at `from`. Alternatives are tried in the order of the pattern.
  std::size_t end_of(std::size_t from) const {
    if (pattern_ == split_pattern::numbers || pattern_ == split_pattern::digits) return end_by_numbers(from);
    if (const std::size_t length = contraction(from); length != 0) return from + length;
    const std::size_t word = from + (may_lead_word(from) ? 1 : 0);
    if (is(word, character_class::letter)) return run(word, character_class::letter);
    if (is(from, character_class::letter)) return run(from, character_class::letter);
    const std::size_t spaced = from + (all_[from].point == ' ' ? 1 : 0);
    const std::size_t number = llama3_ ? from : spaced;
    if (is(number, character_class::number)) {
      const std::size_t end = run(number, character_class::number);
      return llama3_ ? (std::min)(end, number + (pattern_ == split_pattern::qwen2 ? 1 : 3)) : end;
    }
    if (is(spaced, character_class::other)) {
      std::size_t end = run(spaced, character_class::other);
      while (llama3_ && end < all_.size() && all_[end].is_line_end()) ++end;
      return end;
    }
    return end_of_spaces(from);
  }

 private:
  bool is(std::size_t index, character_class kind) const noexcept {
    return index < all_.size() && all_[index].kind == kind;
  }
  std::size_t run(std::size_t index, character_class kind) const noexcept {
    while (is(index, kind)) ++index;
    return index;
  }

  /// Whether the character may stand in front of the letters of a word.
  bool may_lead_word(std::size_t index) const noexcept {
    const detail::character& lead = all_[index];
    if (!llama3_) return lead.point == ' ';
    return !lead.is_line_end() && lead.kind != character_class::letter && lead.kind != character_class::number;
  }

  /// Returns the length of "'s", "'ll" and the like at `from`, or 0.
  std::size_t contraction(std::size_t from) const noexcept {
    if (all_[from].point != '\'') return 0;
    const auto letter = [&](std::size_t index) -> char {
      const std::uint32_t point = index < all_.size() ? all_[index].point : 0;
      if (llama3_ && point >= 'A' && point <= 'Z') return static_cast<char>(point + 32);
      if (llama3_ && point == 0x17F) return 's';  // the long s, which equals s when case is ignored
      return point < 0x80 ? static_cast<char>(point) : '\0';
    };
    const char one = letter(from + 1);
    const char two = letter(from + 2);
    if (one == 's' || one == 't' || one == 'm' || one == 'd') return 2;
    return (one == 'r' && two == 'e') || (one == 'v' && two == 'e') || (one == 'l' && two == 'l') ? 3 : 0;
  }

  /// Returns the end of white space: after its last line end (Llama 3), else before the last character, which may lead
  /// a word.
  std::size_t end_of_spaces(std::size_t from) const noexcept {
    const std::size_t end = run(from, character_class::space);
    for (std::size_t at = end; llama3_ && at > from; --at) {
      if (all_[at - 1].is_line_end()) return at;
    }
    return end == all_.size() || end - from < 2 ? end : end - 1;
  }

  std::size_t end_by_numbers(std::size_t from) const noexcept {
    const bool number = is_number(from);
    if (number && pattern_ == split_pattern::digits) return from + 1;
    while (from < all_.size() && is_number(from) == number) ++from;
    return from;
  }

  /// Whether `Digits` sees a number. It knows the numbers of Unicode 17, unlike the expressions.
  bool is_number(std::size_t index) const noexcept {
    const std::uint32_t point = all_[index].point;
    return is(index, character_class::number) || (point >= 0x11DE0 && point <= 0x11DE9) ||
           (point >= 0x16FF4 && point <= 0x16FF6);
  }

  std::string_view text_;
  split_pattern pattern_;
  bool llama3_;  ///< the pattern of Llama 3 or a similar one
  std::vector<detail::character> all_;
};

}  // namespace

namespace detail {

std::vector<character> characters_of(std::string_view text) {
  std::vector<character> all;
  all.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = ecq::utf8_sequence(text.substr(at));
    const auto lead = static_cast<unsigned char>(text[at]);
    std::uint32_t point = length < 2 ? lead : lead & (0x7FU >> length);
    for (std::size_t index = 1; index < length; ++index) {
      point = point << 6U | (static_cast<unsigned char>(text[at + index]) & 0x3FU);
    }
    all.push_back({at, point, length == 0 ? character_class::other : class_of(point)});
    at += length == 0 ? 1 : length;
  }
  return all;
}

}  // namespace detail

void split(std::string_view text, split_pattern pattern, const std::function<void(std::string_view piece)>& use) {
  if (pattern == split_pattern::none) {
    if (!text.empty()) use(text);
    return;
  }
  const piece_matcher matcher(text, pattern);
  for (std::size_t from = 0; from < matcher.characters();) {
    const std::size_t end = matcher.end_of(from);
    use(text.substr(matcher.byte_of(from), matcher.byte_of(end) - matcher.byte_of(from)));
    from = end;
  }
}

}  // namespace llama
