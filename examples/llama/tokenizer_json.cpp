// Reads the members of tokenizer.json, one after another.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tokenizer.hpp"

namespace llama {

namespace {

/// Reads the members of a sequence, which must not contain another sequence.
template <class Read>
ecq::result<void> each_of(const json& sequence, const char* name, const Read& read) {
  const json* all = find_member(sequence, name);
  if (all == nullptr || !all->is_array()) return ecq::error(ecq::errc::corrupt, name, ": not an array");
  for (const json& one : *all) {
    if (text_member(one, "type") == "Sequence") return ecq::error(ecq::errc::unsupported, "a sequence within another");
    ECQ_CHECK(read(one));
  }
  return {};
}

}  // namespace

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

ecq::result<void> tokenizer::read_pre_tokenizer(const json& from) {
  const std::string_view type = text_member(from, "type");
  if (type == "Sequence") {
    return each_of(from, "pretokenizers", [&](const json& one) { return read_pre_tokenizer(one); });
  }
  if (has_spelling_) return ecq::error(ecq::errc::unsupported, "type '", type, "' after ByteLevel or Metaspace");
  if (type == "ByteLevel") {
    ECQ_TRY(splits, flag_member(from, "use_regex", true));
    ECQ_TRY(prefix, flag_member(from, "add_prefix_space"));
    if (splits) last_pattern_ = split_pattern::gpt2;
    if (prefix) lead_ = lead::unless_there;
    has_spelling_ = true;
    return {};
  }
  if (type == "Metaspace" && patterns_.empty()) return read_metaspace(from);
  if (type == "Digits") {
    ECQ_TRY(each, flag_member(from, "individual_digits"));
    patterns_.push_back(each ? split_pattern::digits : split_pattern::numbers);
    return {};
  }
  const json* pattern = find_member(from, "pattern");
  if (type == "Split" && pattern != nullptr && text_member(from, "behavior") == "Isolated") {
    const std::string_view expression = text_member(*pattern, "Regex");
    if (expression == llama3_expression || expression == qwen2_expression) {
      patterns_.push_back(expression == llama3_expression ? split_pattern::llama3 : split_pattern::qwen2);
      return {};
    }
  }
  return ecq::error(ecq::errc::unsupported, "type '", type, "'", type == "Split" ? " with this pattern" : "",
                    ", not ByteLevel, Metaspace, Digits or the Split of Llama 3 or Qwen2");
}

ecq::result<void> tokenizer::read_metaspace(const json& from) {
  if (text_member(from, "replacement") != space_mark) {
    return ecq::error(ecq::errc::unsupported, "Metaspace with this replacement");
  }
  ECQ_TRY(splits, flag_member(from, "split", true));
  if (splits) return ecq::error(ecq::errc::unsupported, "Metaspace that splits");
  const std::string_view scheme = text_member(from, "prepend_scheme");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return ecq::error(ecq::errc::corrupt, "prepend_scheme: '", scheme, "', not always, first or never");
  }
  if (scheme != "never") lead_ = scheme == "first" ? lead::of_text : lead::unless_there;
  spelling_ = spelling::characters;
  has_spelling_ = true;
  return {};
}

ecq::result<void> tokenizer::read_normalizer(const json& from) {
  const std::string_view type = text_member(from, "type");
  if (type == "Sequence") {
    return each_of(from, "normalizers", [&](const json& one) { return read_normalizer(one); });
  }
  if (type == "NFC") {
    composed_ = true;
    return {};
  }
  if (type == "Prepend" && text_member(from, "prepend") == space_mark) {
    lead_ = lead::normalizer;
    return {};
  }
  const json* pattern = find_member(from, "pattern");
  if (type == "Replace" && pattern != nullptr && text_member(*pattern, "String") == " " &&
      text_member(from, "content") == space_mark) {
    spelling_ = spelling::characters;
    has_spelling_ = true;
    return {};
  }
  return ecq::error(ecq::errc::unsupported, "type '", type, "', neither NFC nor marks for spaces");
}

ecq::result<void> tokenizer::read_splitting(const json& from) {
  if (const json* normalizer = find_member(from, "normalizer"); normalizer != nullptr) {
    auto read = read_normalizer(*normalizer);
    if (!read) return std::move(read).error().within("normalizer");
    if (lead_ != lead::none && !has_spelling_) return ecq::error(ecq::errc::unsupported, "normalizer: Prepend alone");
    marks_early_ = has_spelling_;
  }
  if (const json* splitting = find_member(from, "pre_tokenizer"); splitting != nullptr) {
    auto read = read_pre_tokenizer(*splitting);
    if (!read) return std::move(read).error().within("pre_tokenizer");
  }
  if (has_spelling_) return {};
  return ecq::error(ecq::errc::unsupported, "pre_tokenizer: neither byte-level nor with marks for spaces");
}

ecq::result<void> tokenizer::add_text(std::uint64_t token, std::string text, std::string_view name,
                                      std::size_t vocabulary) {
  if (token >= vocabulary) {
    return ecq::error(ecq::errc::corrupt, "token '", name, "': its number is ", token,
                      ", but the model's vocabulary has only ", vocabulary);
  }
  if (texts_.size() <= token) texts_.resize(token + 1);
  if (texts_[token]) return ecq::error(ecq::errc::corrupt, "token '", name, "': another token has its number ", token);
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
  if (fallback != (spelling_ == spelling::characters)) {
    return ecq::error(ecq::errc::unsupported, "model: ", fallback ? "byte_fallback" : "no byte_fallback");
  }
  ECQ_TRY(whole, flag_member(bpe, "ignore_merges"));
  whole_pieces_ = whole;
  const json* tokens = find_member(bpe, "vocab");
  if (tokens == nullptr || !tokens->is_object()) return ecq::error(ecq::errc::corrupt, "model: vocab: not an object");
  for (const auto& [name, token] : tokens->items()) {
    const auto number = natural_of(token);
    if (!number) return ecq::error(ecq::errc::corrupt, "model: vocab: '", name, "': not a token number");
    ECQ_CHECK(add_text(*number, text_of(spelling_, name), name, vocabulary));
    names_.emplace(name, static_cast<std::uint32_t>(*number));
  }
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    byte_tokens_[byte] = token_of(name_of_byte(spelling_, static_cast<unsigned char>(byte)));
  }
  return {};
}

std::optional<std::uint32_t> tokenizer::token_of(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

ecq::result<void> tokenizer::read_merges(const json& bpe) {
  const json* merges = find_member(bpe, "merges");
  if (merges == nullptr || !merges->is_array()) return ecq::error(ecq::errc::corrupt, "model: merges: not an array");
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
                        "' are not tokens that merge into a token");
    }
    pairs_.add(*one, *other, *merged);
  }
  return {};
}

ecq::result<void> tokenizer::read_added(const json& from, std::size_t vocabulary) {
  const json* all = find_member(from, "added_tokens");
  if (all == nullptr) return {};
  if (!all->is_array()) return ecq::error(ecq::errc::corrupt, "added_tokens: not an array");
  std::uint64_t next = names_.size();  // of the next token that is not in the vocabulary, whatever files say
  for (const json& one : *all) {
    if (!one.is_object()) return ecq::error(ecq::errc::corrupt, "added_tokens: not an array of objects");
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
    if (added_.has(text) || normalized_added_.has(normalize(text))) {
      return ecq::error(ecq::errc::corrupt, "added_tokens: token '", text, "' occurs twice");
    }
    if (known) texts_[token].reset();  // it stands for itself in text
    ECQ_CHECK(add_text(token, text, text, vocabulary));
    next = (std::max)(next, token + 1);
    (normalized ? normalized_added_ : added_)
        .add(normalized ? normalize(text) : text, static_cast<std::uint32_t>(token));
  }
  return {};
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
      return ecq::error(ecq::errc::unsupported, "post_processor: type '", type, "', not a single TemplateProcessing");
    }
    auto read = read_template(one, vocabulary);
    if (!read) return std::move(read).error().within("post_processor");
  }
  return {};
}

ecq::result<void> tokenizer::read_template(const json& from, std::size_t vocabulary) {
  const json* single = find_member(from, "single");
  const json* tokens = find_member(from, "special_tokens");
  if (single == nullptr || !single->is_array()) return ecq::error(ecq::errc::corrupt, "single: not an array");
  std::size_t texts = 0;
  for (const json& part : *single) {
    const json* special = part.is_object() ? find_member(part, "SpecialToken") : nullptr;
    const json* text = part.is_object() ? find_member(part, "Sequence") : nullptr;
    texts += text != nullptr && text_member(*text, "id") == "A";
    if (special == nullptr) continue;
    const std::string name(text_member(*special, "id"));
    if (texts != 0) return ecq::error(ecq::errc::unsupported, "'", name, "' after the text");
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
  if (texts != 1) return ecq::error(ecq::errc::unsupported, "single: the text occurs ", texts, " times");
  return {};
}

}  // namespace llama
