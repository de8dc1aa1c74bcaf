// Text to tokens and back.

#include "tokenizer.hpp"

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "normal_form.hpp"

namespace llama {

tokenizer tokenizer::of_bytes() {
  tokenizer bytes;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    bytes.texts_.emplace_back(std::string(1, static_cast<char>(byte)));
    bytes.byte_tokens_[byte] = byte;
  }
  return bytes;
}

ecq::result<tokenizer> tokenizer::load(const std::filesystem::path& folder, std::size_t vocabulary) {
  const auto path = folder / "tokenizer.json";
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) {
    for (const char* const other : {"tokenizer.model", "tokenizer_config.json", "vocab.json"}) {
      if (!std::filesystem::exists(folder / other, ignored)) continue;
      return ecq::error(ecq::errc::unsupported, "'", (folder / other).string(),
                        "': tokenizers are read only from tokenizer.json");
    }
    if (vocabulary >= 256) return of_bytes();
    return ecq::error(ecq::errc::not_found, "'", path.string(), "': no tokenizer, and a vocabulary of ", vocabulary,
                      " tokens is too small for all bytes");
  }
  ECQ_TRY(parsed, read_json_object(path));
  auto made = parse(parsed, vocabulary);
  if (!made) return std::move(made).error().within("'", path.string(), "'");
  return made;
}

ecq::result<std::vector<std::uint32_t>> tokenizer::encode(std::string_view text) const {
  std::vector<std::uint32_t> tokens;
  ecq::result<void> outcome;
  added_.split(text, [&](std::string_view part, const std::uint32_t* added) {
    if (added != nullptr) return tokens.push_back(*added);
    if (outcome && composed_) outcome = check_composed(part);
    const std::string normal = normalize(part);
    bool first = part.data() == text.data();
    normalized_added_.split(normal, [&](std::string_view piece, const std::uint32_t* token) {
      if (token != nullptr) tokens.push_back(*token);
      if (token == nullptr && outcome) outcome = encode_plain(piece, 0, first, tokens);
      first = false;
    });
  });
  if (!outcome) return std::move(outcome).error();
  return tokens;
}

std::string tokenizer::decode(std::span<const std::uint32_t> tokens) const {
  std::string text;
  for (const std::uint32_t token : tokens) text += token < texts_.size() && texts_[token] ? *texts_[token] : "\uFFFD";
  return text;
}

ecq::result<void> tokenizer::check_composed(std::string_view text) {
  const auto odd = may_normalize(text);
  if (!odd) return {};
  return ecq::error(ecq::errc::unsupported, "text contains character ", *odd,
                    ", which NFC may change; normalize the text first");
}

std::string tokenizer::normalize(std::string_view text) const {
  if (!marks_early_ || text.empty()) return std::string(text);
  std::string normal = lead_ == lead::normalizer ? " " : "";
  normal += text;
  return name_of(spelling_, normal);
}

ecq::result<void> tokenizer::encode_plain(std::string_view text, std::size_t level, bool first,
                                          std::vector<std::uint32_t>& out) const {
  if (level < patterns_.size()) {
    ecq::result<void> outcome;
    split(text, patterns_[level], [&](std::string_view piece) {
      if (outcome) outcome = encode_plain(piece, level + 1, first, out);
      first = false;
    });
    return outcome;
  }
  if (needs_space(text, first)) return encode_pieces(std::string(" ").append(text), out);
  return encode_pieces(text, out);
}

bool tokenizer::needs_space(std::string_view text, bool first) const noexcept {
  if (lead_ == lead::none || lead_ == lead::normalizer || text.empty()) return false;
  const bool there = text[0] == ' ' || (spelling_ == spelling::characters && text.starts_with(space_mark));
  return !there && (first || lead_ == lead::unless_there);
}

ecq::result<void> tokenizer::encode_pieces(std::string_view text, std::vector<std::uint32_t>& out) const {
  ecq::result<void> outcome;
  std::vector<std::uint32_t> parts;
  split(text, last_pattern_, [&](std::string_view piece) {
    if (!outcome) return;
    const std::string name = name_of(spelling_, piece);
    if (whole_pieces_) {
      if (const auto token = token_of(name); token) {
        out.push_back(*token);
        return;
      }
    }
    parts.clear();
    if (spelling_ == spelling::bytes) {
      outcome = add_bytes(piece, parts);
    } else {
      outcome = add_characters(name, parts);
    }
    if (outcome) pairs_.encode(parts, out);
  });
  return outcome;
}

ecq::result<void> tokenizer::add_bytes(std::string_view text, std::vector<std::uint32_t>& out) const {
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if (!byte_tokens_[value]) {
      return ecq::error(ecq::errc::unsupported, "text contains byte ", static_cast<unsigned>(value),
                        ", which has no token");
    }
    out.push_back(*byte_tokens_[value]);
  }
  return {};
}

ecq::result<void> tokenizer::add_characters(std::string_view name, std::vector<std::uint32_t>& out) const {
  const auto characters = detail::characters_of(name);
  for (std::size_t index = 0; index < characters.size(); ++index) {
    const std::size_t begin = characters[index].begin;
    const std::size_t end = index + 1 < characters.size() ? characters[index + 1].begin : name.size();
    const std::string_view one = name.substr(begin, end - begin);
    if (const auto token = token_of(std::string(one)); token) {
      out.push_back(*token);
    } else {
      ECQ_CHECK(add_bytes(one, out));
    }
  }
  return {};
}

}  // namespace llama
