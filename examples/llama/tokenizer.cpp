// The members of tokenizer.json, and text to tokens by what they say.

#include "tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace llama {

namespace {

/// The code points that stand for bytes in the tokens of files: printable bytes for themselves, the others from
/// U+0100 on.
std::array<std::uint32_t, 256> alphabet() {
  std::array<std::uint32_t, 256> points{};
  std::uint32_t next = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    points[byte] = printable ? byte : next++;
  }
  return points;
}

/// The bytes that a token of a file stands for; its own, if it has characters that stand for none.
std::string bytes_of(const std::string& token) {
  static const auto bytes = [] {
    std::unordered_map<std::uint32_t, char> map;
    const auto points = alphabet();
    for (std::uint32_t byte = 0; byte < 256; ++byte) map.emplace(points[byte], static_cast<char>(byte));
    return map;
  }();
  std::string text;
  for (const detail::character& each : detail::characters_of(token)) {
    const auto found = bytes.find(each.point);
    if (found == bytes.end()) return token;
    text += found->second;
  }
  return text;
}

}  // namespace

tokenizer tokenizer::of_bytes() {
  tokenizer bytes;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    bytes.texts_.emplace_back(std::string(1, static_cast<char>(byte)));
    bytes.byte_tokens_[byte] = byte;
  }
  return bytes;
}

ecq::result<tokenizer> tokenizer::parse(const json& from, std::size_t vocabulary) {
  tokenizer made;
  ECQ_CHECK(made.read_splitting(from));
  const json* bpe = find_member(from, "model");
  if (bpe == nullptr || !bpe->is_object()) return ecq::error(ecq::errc::not_found, "model is missing");
  ECQ_CHECK(made.read_vocabulary(*bpe, vocabulary));
  ECQ_CHECK(made.read_merges(*bpe));
  ECQ_CHECK(made.read_added(from, vocabulary));
  ECQ_CHECK(made.read_begin(from));
  return made;
}

ecq::result<tokenizer> tokenizer::load(const std::filesystem::path& folder, std::size_t vocabulary) {
  const auto path = folder / "tokenizer.json";
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) {
    if (vocabulary >= 256) return of_bytes();
    return ecq::error(ecq::errc::not_found, "'", path.string(), "': no tokenizer, and a vocabulary of ", vocabulary,
                      " tokens does not hold all bytes");
  }
  ECQ_TRY(parsed, read_json_object(path));
  auto made = parse(parsed, vocabulary);
  if (!made) return std::move(made).error().within("'", path.string(), "'");
  return made;
}

ecq::result<std::vector<std::uint32_t>> tokenizer::encode(std::string_view text) const {
  std::vector<std::uint32_t> tokens;
  std::size_t begin = 0;  // of what no added token has taken
  for (std::size_t at = 0; at < text.size();) {
    const added_token* added = added_at(text.substr(at));
    if (added == nullptr) {
      ++at;
      continue;
    }
    ECQ_CHECK(encode_plain(text.substr(begin, at - begin), tokens));
    tokens.push_back(added->token);
    begin = at += added->text.size();
  }
  ECQ_CHECK(encode_plain(text.substr(begin), tokens));
  return tokens;
}

std::string tokenizer::decode(std::span<const std::uint32_t> tokens) const {
  std::string text;
  for (const std::uint32_t token : tokens) text += token < texts_.size() && texts_[token] ? *texts_[token] : "\uFFFD";
  return text;
}

ecq::result<void> tokenizer::read_pre_tokenizer(const json& from) {
  const std::string_view type = text_member(from, "type");
  if (type == "Sequence") {
    const json* all = find_member(from, "pretokenizers");
    if (all == nullptr || !all->is_array()) return ecq::error(ecq::errc::corrupt, "pretokenizers: no array");
    for (const json& one : *all) {
      if (text_member(one, "type") == "Sequence") return ecq::error(ecq::errc::unsupported, "a sequence in another");
      ECQ_CHECK(read_pre_tokenizer(one));
    }
    return {};
  }
  if (type == "ByteLevel") {
    const json* expression = find_member(from, "use_regex");
    if (expression == nullptr || *expression == true) {
      if (pattern_ != split_pattern::none) return ecq::error(ecq::errc::unsupported, "two ways to split text");
      pattern_ = split_pattern::gpt2;
    }
    ECQ_TRY(prefix, flag_member(from, "add_prefix_space"));
    space_before_ = prefix;
    byte_level_ = true;
    return {};
  }
  const json* pattern = find_member(from, "pattern");
  if (type == "Split" && pattern != nullptr && text_member(*pattern, "Regex") == llama3_expression &&
      text_member(from, "behavior") == "Isolated" && pattern_ == split_pattern::none) {
    pattern_ = split_pattern::llama3;
    return {};
  }
  return ecq::error(ecq::errc::unsupported, "type '", type, "'", type == "Split" ? " by this pattern" : "",
                    ", not ByteLevel or Llama 3's Split");
}

ecq::result<void> tokenizer::read_splitting(const json& from) {
  if (const json* normalizer = find_member(from, "normalizer"); normalizer != nullptr) {
    return ecq::error(ecq::errc::unsupported, "normalizer of type '", text_member(*normalizer, "type"), "'");
  }
  const json* splitting = find_member(from, "pre_tokenizer");
  if (splitting != nullptr) {
    auto read = read_pre_tokenizer(*splitting);
    if (!read) return std::move(read).error().within("pre_tokenizer");
  }
  if (byte_level_) return {};
  return ecq::error(ecq::errc::unsupported, "pre_tokenizer: is not byte-level");
}

ecq::result<void> tokenizer::add_text(std::uint64_t token, std::string text, std::string_view name,
                                      std::size_t vocabulary) {
  if (token >= vocabulary) {
    return ecq::error(ecq::errc::corrupt, "token '", name, "': its number is ", token, ", the model's vocabulary has ",
                      vocabulary);
  }
  if (texts_.size() <= token) texts_.resize(token + 1);
  texts_[token] = std::move(text);
  return {};
}

ecq::result<void> tokenizer::read_vocabulary(const json& bpe, std::size_t vocabulary) {
  if (text_member(bpe, "type") != "BPE") {
    return ecq::error(ecq::errc::unsupported, "model of type '", text_member(bpe, "type"), "', not BPE");
  }
  for (const char* const option : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const json* given = find_member(bpe, option);
    const bool unset = given == nullptr || (given->is_string() && text_member(bpe, option).empty());
    if (!unset) return ecq::error(ecq::errc::unsupported, "model: ", option);
  }
  ECQ_TRY(fallback, flag_member(bpe, "byte_fallback"));
  if (fallback) return ecq::error(ecq::errc::unsupported, "model: byte_fallback");
  ECQ_TRY(whole, flag_member(bpe, "ignore_merges"));
  whole_pieces_ = whole;
  const json* tokens = find_member(bpe, "vocab");
  if (tokens == nullptr || !tokens->is_object()) return ecq::error(ecq::errc::corrupt, "model: vocab: no object");
  for (const auto& [name, token] : tokens->items()) {
    const auto number = natural_of(token);
    if (!number) return ecq::error(ecq::errc::corrupt, "model: vocab: '", name, "': no token number");
    std::string text = bytes_of(name);
    ECQ_CHECK(add_text(*number, text, name, vocabulary));
    tokens_.emplace(std::move(text), static_cast<std::uint32_t>(*number));
  }
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    byte_tokens_[byte] = token_of(std::string(1, static_cast<char>(byte)));
  return {};
}

std::optional<std::uint32_t> tokenizer::token_of(const std::string& text) const {
  const auto found = tokens_.find(text);
  return found == tokens_.end() ? std::nullopt : std::optional(found->second);
}

ecq::result<void> tokenizer::read_merges(const json& bpe) {
  const json* merges = find_member(bpe, "merges");
  if (merges == nullptr || !merges->is_array()) return ecq::error(ecq::errc::corrupt, "model: merges: no array");
  for (std::size_t index = 0; index < merges->size(); ++index) {
    const json& merge = (*merges)[index];
    std::string left, right;
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const std::size_t gap = (std::min)(text.find(' '), text.size());
      left = text.substr(0, gap);
      right = text.substr((std::min)(gap + 1, text.size()));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    }
    const std::string first = bytes_of(left);
    const std::string second = bytes_of(right);
    const auto one = token_of(first);
    const auto other = token_of(second);
    const auto merged = token_of(first + second);
    if (!one || !other || !merged) {
      return ecq::error(ecq::errc::corrupt, "model: merges[", index, "]: '", left, "' and '", right,
                        "' are not tokens that make a token");
    }
    pairs_.add(*one, *other, *merged);
  }
  return {};
}

ecq::result<void> tokenizer::read_added(const json& from, std::size_t vocabulary) {
  const json* all = find_member(from, "added_tokens");
  if (all == nullptr) return {};
  if (!all->is_array()) return ecq::error(ecq::errc::corrupt, "added_tokens: no array");
  for (const json& one : *all) {
    if (!one.is_object()) return ecq::error(ecq::errc::corrupt, "added_tokens: no array of objects");
    const std::string text(text_member(one, "content"));
    ECQ_TRY(token, integer_member(one, "id", 0, (std::uint64_t{1} << 32U) - 2));
    if (text.empty()) return ecq::error(ecq::errc::corrupt, "added_tokens: token ", token, " has no content");
    ECQ_CHECK(add_text(token, text, text, vocabulary));
    added_[static_cast<unsigned char>(text[0])].push_back({text, static_cast<std::uint32_t>(token)});
  }
  for (auto& of_byte : added_) {  // the longest first
    std::ranges::stable_sort(of_byte, [](const added_token& left, const added_token& right) {
      return left.text.size() > right.text.size();
    });
  }
  return {};
}

ecq::result<void> tokenizer::read_begin(const json& from) {
  const json* processor = find_member(from, "post_processor");
  if (processor == nullptr) return {};
  json::array_t all{*processor};
  const json* sequence = find_member(*processor, "processors");
  if (sequence != nullptr && sequence->is_array()) all = sequence->get<json::array_t>();
  for (const json& one : all) {
    const json* single = find_member(one, "single");
    if (text_member(one, "type") != "TemplateProcessing" || single == nullptr) continue;
    for (const json& part : *single) {
      const json* special = part.is_object() ? find_member(part, "SpecialToken") : nullptr;
      if (special == nullptr) break;
      const added_token* added = added_at(text_member(*special, "id"));
      if (added == nullptr) {
        return ecq::error(ecq::errc::corrupt, "post_processor: no added token '", text_member(*special, "id"), "'");
      }
      begin_.push_back(added->token);
    }
  }
  return {};
}

const tokenizer::added_token* tokenizer::added_at(std::string_view text) const noexcept {
  if (text.empty()) return nullptr;
  const auto& candidates = added_[static_cast<unsigned char>(text[0])];
  const auto found = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const added_token& each) { return text.starts_with(each.text); });
  return found == candidates.end() ? nullptr : &*found;
}

ecq::result<void> tokenizer::encode_plain(std::string_view text, std::vector<std::uint32_t>& out) const {
  if (text.empty()) return {};
  if (space_before_ && text[0] != ' ') return encode_pieces(std::string(" ").append(text), out);
  return encode_pieces(text, out);
}

ecq::result<void> tokenizer::encode_pieces(std::string_view text, std::vector<std::uint32_t>& out) const {
  for (const char byte : text) {
    if (byte_tokens_[static_cast<unsigned char>(byte)]) continue;
    return ecq::error(ecq::errc::unsupported, "text with the byte ",
                      static_cast<unsigned>(static_cast<unsigned char>(byte)), ", for which there is no token");
  }
  std::vector<std::uint32_t> bytes;
  split(text, pattern_, [&](std::string_view piece) {
    if (whole_pieces_) {
      if (const auto token = token_of(std::string(piece)); token) {
        out.push_back(*token);
        return;
      }
    }
    bytes.clear();
    for (const char byte : piece) bytes.push_back(*byte_tokens_[static_cast<unsigned char>(byte)]);
    pairs_.encode(bytes, out);
  });
  return {};
}

}  // namespace llama
