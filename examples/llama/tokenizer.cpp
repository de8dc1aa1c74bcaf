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

/// What files call a piece of text.
std::string name_of(std::string_view bytes) {
  static const auto points = alphabet();
  std::string name;
  for (const char byte : bytes) {
    const std::uint32_t point = points[static_cast<unsigned char>(byte)];
    if (point < 0x80) {
      name += static_cast<char>(point);
      continue;
    }
    name += static_cast<char>(0xC0U | point >> 6U);
    name += static_cast<char>(0x80U | (point & 0x3FU));
  }
  return name;
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
  ECQ_CHECK(made.read_begin(from, vocabulary));
  return made;
}

ecq::result<tokenizer> tokenizer::load(const std::filesystem::path& folder, std::size_t vocabulary) {
  const auto path = folder / "tokenizer.json";
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) {
    for (const char* const other : {"tokenizer.model", "tokenizer_config.json", "vocab.json"}) {
      if (!std::filesystem::exists(folder / other, ignored)) continue;
      return ecq::error(ecq::errc::unsupported, "'", (folder / other).string(),
                        "': a tokenizer without tokenizer.json, the only file that is read");
    }
    if (vocabulary >= 256) return of_bytes();
    return ecq::error(ecq::errc::not_found, "'", path.string(), "': no tokenizer, and a vocabulary of ", vocabulary,
                      " tokens does not hold all bytes");
  }
  ECQ_TRY(parsed, read_json_object(path));
  auto made = parse(parsed, vocabulary);
  if (!made) return std::move(made).error().within("'", path.string(), "'");
  const auto beside = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(beside, ignored)) return made;
  ECQ_TRY(config, read_json_object(beside));
  auto read = made->read_config(config);
  if (!read) return std::move(read).error().within("'", beside.string(), "'");
  return made;
}

ecq::result<std::vector<std::uint32_t>> tokenizer::encode(std::string_view text) const {
  std::vector<std::uint32_t> tokens;
  ecq::result<void> outcome;
  added_.split(text, [&](std::string_view part, const std::uint32_t* added) {
    if (added != nullptr) return tokens.push_back(*added);
    normalized_added_.split(part, [&](std::string_view piece, const std::uint32_t* token) {
      if (token != nullptr) return tokens.push_back(*token);
      if (outcome) outcome = encode_plain(piece, 0, tokens);
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
  if (byte_level_) return ecq::error(ecq::errc::unsupported, "type '", type, "' behind ByteLevel");
  if (type == "ByteLevel") {
    ECQ_TRY(splits, flag_member(from, "use_regex", true));
    ECQ_TRY(prefix, flag_member(from, "add_prefix_space"));
    if (splits) last_pattern_ = split_pattern::gpt2;
    space_before_ = prefix;
    byte_level_ = true;
    return {};
  }
  if (type == "Digits") {
    ECQ_TRY(each, flag_member(from, "individual_digits"));
    patterns_.push_back(each ? split_pattern::digits : split_pattern::numbers);
    return {};
  }
  const json* pattern = find_member(from, "pattern");
  if (type == "Split" && pattern != nullptr && text_member(*pattern, "Regex") == llama3_expression &&
      text_member(from, "behavior") == "Isolated") {
    patterns_.push_back(split_pattern::llama3);
    return {};
  }
  return ecq::error(ecq::errc::unsupported, "type '", type, "'", type == "Split" ? " by this pattern" : "",
                    ", not ByteLevel, Digits or Llama 3's Split");
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
  if (texts_[token]) return ecq::error(ecq::errc::corrupt, "token '", name, "': another one has its number ", token);
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
    ECQ_CHECK(add_text(*number, bytes_of(name), name, vocabulary));
    names_.emplace(name, static_cast<std::uint32_t>(*number));
  }
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    byte_tokens_[byte] = token_of(name_of(std::string(1, static_cast<char>(byte))));
  return {};
}

std::optional<std::uint32_t> tokenizer::token_of(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

ecq::result<void> tokenizer::read_merges(const json& bpe) {
  const json* merges = find_member(bpe, "merges");
  if (merges == nullptr || !merges->is_array()) return ecq::error(ecq::errc::corrupt, "model: merges: no array");
  for (std::size_t index = 0; index < merges->size(); ++index) {
    const json& merge = (*merges)[index];
    std::string left, right;
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;  // the first line of files that such lists come from
      const std::size_t gap = (std::min)(text.find(' '), text.size());
      left = text.substr(0, gap);
      right = text.substr((std::min)(gap + 1, text.size()));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    }
    const auto one = token_of(left);
    const auto other = token_of(right);
    const auto merged = token_of(left + right);
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
  std::uint64_t next = names_.size();  // of tokens that are not in the vocabulary, whatever their files say
  for (const json& one : *all) {
    if (!one.is_object()) return ecq::error(ecq::errc::corrupt, "added_tokens: no array of objects");
    const std::string text(text_member(one, "content"));
    ECQ_TRY(token, integer_member(one, "id", 0, (std::uint64_t{1} << 32U) - 2));
    if (text.empty()) return ecq::error(ecq::errc::corrupt, "added_tokens: token ", token, " has no content");
    for (const char* const option : {"single_word", "lstrip", "rstrip"}) {
      ECQ_TRY(given, flag_member(one, option));
      if (given) return ecq::error(ecq::errc::unsupported, "added_tokens: token '", text, "': ", option);
    }
    ECQ_TRY(normalized, flag_member(one, "normalized"));
    const auto known = token_of(text);
    if (token != (known ? *known : next)) {
      return ecq::error(ecq::errc::unsupported, "added_tokens: token '", text, "': its number is ", token, ", not ",
                        known ? *known : next);
    }
    if (added_token(text)) return ecq::error(ecq::errc::corrupt, "added_tokens: token '", text, "' is there twice");
    if (known) texts_[token].reset();  // it stands for itself in text
    ECQ_CHECK(add_text(token, text, text, vocabulary));
    next = (std::max)(next, token + 1);
    (normalized ? normalized_added_ : added_).add(text, static_cast<std::uint32_t>(token));
  }
  return {};
}

std::optional<std::uint32_t> tokenizer::added_token(std::string_view text) const {
  const auto literal = added_.find(text);
  return literal ? literal : normalized_added_.find(text);
}

ecq::result<void> tokenizer::read_begin(const json& from, std::size_t vocabulary) {
  const json* processor = find_member(from, "post_processor");
  if (processor == nullptr) return {};
  json::array_t all{*processor};
  const json* sequence = find_member(*processor, "processors");
  if (sequence != nullptr && sequence->is_array()) all = sequence->get<json::array_t>();
  bool has_template = false;
  for (const json& one : all) {
    const std::string_view type = text_member(one, "type");
    if (type == "ByteLevel") continue;  // says where tokens lie in the text
    if (type != "TemplateProcessing" || std::exchange(has_template, true)) {
      return ecq::error(ecq::errc::unsupported, "post_processor: type '", type, "', not one TemplateProcessing");
    }
    auto read = read_template(one, vocabulary);
    if (!read) return std::move(read).error().within("post_processor");
  }
  return {};
}

ecq::result<void> tokenizer::read_template(const json& from, std::size_t vocabulary) {
  const json* single = find_member(from, "single");
  const json* tokens = find_member(from, "special_tokens");
  if (single == nullptr || !single->is_array()) return ecq::error(ecq::errc::corrupt, "single: no array");
  bool has_text = false;
  for (const json& part : *single) {
    const json* special = part.is_object() ? find_member(part, "SpecialToken") : nullptr;
    if (special == nullptr && std::exchange(has_text, true)) {
      return ecq::error(ecq::errc::unsupported, "single: the text twice");
    }
    if (special == nullptr) continue;
    const std::string name(text_member(*special, "id"));
    if (has_text) return ecq::error(ecq::errc::unsupported, "'", name, "' behind the text");
    const json* token = tokens == nullptr ? nullptr : find_member(*tokens, name.c_str());
    const json* numbers = token == nullptr ? nullptr : find_member(*token, "ids");
    if (numbers == nullptr || !numbers->is_array()) {
      return ecq::error(ecq::errc::corrupt, "special_tokens: '", name, "': no ids");
    }
    for (const json& each : *numbers) {
      const auto number = natural_of(each);
      if (!number || *number >= vocabulary) {
        return ecq::error(ecq::errc::corrupt, "special_tokens: '", name, "': ", each.dump(), ", not a token below ",
                          vocabulary);
      }
      begin_.push_back(static_cast<std::uint32_t>(*number));
    }
  }
  return {};
}

ecq::result<void> tokenizer::read_config(const json& from) {
  if (!from.contains("add_bos_token") && !from.contains("add_eos_token")) return {};
  ECQ_TRY(begins, flag_member(from, "add_bos_token"));
  ECQ_TRY(ends, flag_member(from, "add_eos_token"));
  if (ends && find_member(from, "eos_token") != nullptr) return ecq::error(ecq::errc::unsupported, "add_eos_token");
  begin_.clear();
  const json* bos = find_member(from, "bos_token");
  if (!begins || bos == nullptr) return {};
  const std::string name(bos->is_string() ? bos->get_ref<const std::string&>() : text_member(*bos, "content"));
  const auto added = added_token(name);
  const auto token = added ? added : token_of(name);
  if (!token) return ecq::error(ecq::errc::corrupt, "bos_token '", name, "' is not in tokenizer.json");
  begin_.push_back(*token);
  return {};
}

ecq::result<void> tokenizer::encode_plain(std::string_view text, std::size_t level,
                                          std::vector<std::uint32_t>& out) const {
  if (level < patterns_.size()) {
    ecq::result<void> outcome;
    split(text, patterns_[level], [&](std::string_view piece) {
      if (outcome) outcome = encode_plain(piece, level + 1, out);
    });
    return outcome;
  }
  if (space_before_ && !text.empty() && text[0] != ' ') return encode_pieces(std::string(" ").append(text), out);
  return encode_pieces(text, out);
}

ecq::result<void> tokenizer::encode_pieces(std::string_view text, std::vector<std::uint32_t>& out) const {
  for (const char byte : text) {
    if (byte_tokens_[static_cast<unsigned char>(byte)]) continue;
    return ecq::error(ecq::errc::unsupported, "text with the byte ",
                      static_cast<unsigned>(static_cast<unsigned char>(byte)), ", for which there is no token");
  }
  std::vector<std::uint32_t> bytes;
  split(text, last_pattern_, [&](std::string_view piece) {
    if (whole_pieces_) {
      if (const auto token = token_of(name_of(piece)); token) {
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
