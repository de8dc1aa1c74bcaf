// Conversion of text to tokens and back, and tokenizers that are refused.

#include "../../examples/llama/tokenizer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "../../examples/llama/pre_tokenizer.hpp"
#include "support/files.hpp"

namespace {

using ecq::errc;
using nlohmann::json;
using tokens = std::vector<std::uint32_t>;
using pieces = std::vector<std::string>;

/// Returns the character that stands for a byte in files, as the published definition lists it.
std::string byte_character(unsigned byte) {
  const auto utf8 = [](unsigned point) {
    if (point < 0x80) return std::string(1, static_cast<char>(point));
    return std::string{static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
  };
  if ((byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE) return utf8(byte);
  unsigned place = byte;  // 0 to 32 are the first without a character of their own
  if (byte >= 0x7F) place = byte - 0x7F + 33;
  if (byte == 0xAD) place = 33 + 34;  // behind 0x7F to 0xA0
  return utf8(256 + place);
}

/// Returns a tokenizer with the 256 bytes by their numbers, then `merges` in order.
json tokenizer_json(const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  json vocabulary = json::object(), list = json::array();
  for (unsigned byte = 0; byte < 256; ++byte) vocabulary[byte_character(byte)] = byte;
  for (const auto& [left, right] : merges) {
    vocabulary[left + right] = vocabulary.size();
    list.push_back(left + " " + right);
  }
  return {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", list}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}};
}

llama::tokenizer parsed(const json& from) {
  auto made = llama::tokenizer::parse(from, 1000);
  if (!made) throw std::runtime_error(made.error().to_string());
  return std::move(*made);
}

std::string error_of(const json& from, std::size_t vocabulary = 1000) {
  const auto made = llama::tokenizer::parse(from, vocabulary);
  return made ? "" : made.error().to_string();
}

pieces split(std::string_view text, llama::split_pattern pattern) {
  pieces all;
  llama::split(text, pattern, [&](std::string_view piece) { all.emplace_back(piece); });
  return all;
}

constexpr std::string_view mixed_text =
    "Hello  world, it's 12345 \xC3\xA9t\xC3\xA9s!\r\n\n\t\xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80 \xFF\xC3 end ";

TEST(LlamaTokenizer, TextsComeBack) {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  const auto merging =
      tokenizer_json({{"l", "l"}, {"H", "e"}, {"He", "ll"}, {"\xC4\xA0", "w"}, {"\xC3\x83", "\xC2\xA9"}});
  for (const auto& words : {llama::tokenizer::of_bytes(), parsed(tokenizer_json()), parsed(merging)}) {
    for (const std::string_view text : {mixed_text, std::string_view(every), std::string_view("")}) {
      const auto encoded = words.encode(text);
      ASSERT_TRUE(encoded);
      EXPECT_EQ(words.decode(*encoded), text);
    }
  }
  EXPECT_LT(parsed(merging).encode(mixed_text)->size(), mixed_text.size() - 3);
}

TEST(LlamaTokenizer, MergesGoByRank) {
  const auto words = parsed(tokenizer_json({{"b", "c"}, {"a", "b"}, {"ab", "c"}, {"a", "a"}}));
  const std::uint32_t bc = 256, ab = 257, aa = 259;
  EXPECT_EQ(*words.encode("abc"), (tokens{'a', bc}));  // not abc: "b c" comes first
  EXPECT_EQ(*words.encode("abd"), (tokens{ab, 'd'}));
  EXPECT_EQ(*words.encode("aaa"), (tokens{aa, 'a'}));  // the leftmost
  EXPECT_EQ(*words.encode("aaab"), (tokens{aa, ab}));
  EXPECT_EQ(*words.encode("a bc"), (tokens{'a', ' ', bc}));
}

TEST(LlamaTokenizer, MergesMayBePairsAndPiecesTokens) {
  json pairs = tokenizer_json({{"b", "c"}, {"a", "b"}, {"ab", "c"}});
  for (json& merge : pairs["model"]["merges"]) {
    const auto text = merge.get<std::string>();
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  EXPECT_EQ(*parsed(pairs).encode("abc"), (tokens{'a', 256}));
  json versioned = tokenizer_json({{"b", "c"}});
  versioned["model"]["merges"].insert(versioned["model"]["merges"].begin(), "#version: 0.2");
  EXPECT_EQ(*parsed(versioned).encode("abc"), (tokens{'a', 256}));
  pairs["model"]["ignore_merges"] = true;
  EXPECT_EQ(*parsed(pairs).encode("abc"), (tokens{258}));
}

TEST(LlamaTokenizer, LongRunsTakeNoQuadraticTime) {
  json from = tokenizer_json({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}});
  const std::string text(1 << 18, 'a');
  const auto encoded = parsed(from).encode(text);
  ASSERT_TRUE(encoded);
  EXPECT_EQ(*encoded, tokens(text.size() / 8, 258));
}

TEST(LlamaTokenizer, AddedTokensAreOne) {
  json from = tokenizer_json();
  from["added_tokens"] = {{{"id", 256}, {"content", "<|end|>"}}, {{"id", 257}, {"content", "<|end|>>"}}};
  const auto words = parsed(from);
  EXPECT_EQ(*words.encode("a<|end|>b<|end|>>"), (tokens{'a', 256, 'b', 257}));
  EXPECT_EQ(words.decode(*words.encode("<|end|>x")), "<|end|>x");
  EXPECT_EQ(words.decode(tokens{'a', 299, 5000}), "a\uFFFD\uFFFD");
}

TEST(LlamaTokenizer, AddedTokensHaveTheNumbersThatOthersGiveThem) {
  const auto with = [](const json& added) {
    json from = tokenizer_json();
    from["model"]["vocab"]["<v>"] = 256;
    from["added_tokens"] = added;
    return error_of(from);
  };
  const auto token = [](unsigned number, const char* text) { return json{{"id", number}, {"content", text}}; };
  EXPECT_EQ(with({token(256, "<v>"), token(257, "<x>"), token(258, "<y>")}), "");
  EXPECT_EQ(with(json::array({token(300, "<x>")})),
            "unsupported: added_tokens: token '<x>': its number is 300, not 257");
  EXPECT_EQ(with(json::array({token(257, "<v>")})),
            "unsupported: added_tokens: token '<v>': its number is 257, not 256");
  EXPECT_EQ(with({token(258, "<x>"), token(257, "<y>")}),
            "unsupported: added_tokens: token '<x>': its number is 258, not 257");
  EXPECT_EQ(with({token(256, "<v>"), token(256, "<v>")}), "corrupt: added_tokens: token '<v>' occurs twice");
}

TEST(LlamaTokenizer, NormalizedAddedTokensTakeWhatOthersLeave) {
  json from = tokenizer_json();
  from["added_tokens"] = {{{"id", 256}, {"content", "ab"}, {"normalized", true}}, {{"id", 257}, {"content", "bc"}}};
  EXPECT_EQ(*parsed(from).encode("abc ab"), (tokens{'a', 257, ' ', 256}));
}

TEST(LlamaTokenizer, TemplatesSayHowTextsBegin) {
  const auto begin_of = [](const json& single, const json& special) {
    json from = tokenizer_json();
    from["post_processor"] = {
        {"type", "Sequence"},
        {"processors",
         {{{"type", "ByteLevel"}}, {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", special}}}}};
    const auto made = llama::tokenizer::parse(from, 300);
    return made ? json(made->begin()).dump() : made.error().to_string();
  };
  const json start = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json special = {{"<s>", {{"id", "<s>"}, {"ids", {7, 8}}, {"tokens", {"x", "y"}}}}};
  EXPECT_EQ(begin_of({start, text}, special), "[7,8]");
  EXPECT_EQ(begin_of(json::array({text}), special), "[]");
  EXPECT_EQ(begin_of({text, start}, special), "unsupported: post_processor: '<s>' after the text");
  EXPECT_EQ(begin_of({text, text}, special), "unsupported: post_processor: single: the text occurs 2 times");
  EXPECT_EQ(begin_of({start, start}, special), "unsupported: post_processor: single: the text occurs 0 times");
  EXPECT_EQ(begin_of({start, {{"Sequence", {{"id", "B"}}}}}, special),
            "unsupported: post_processor: single: the text occurs 0 times");
  EXPECT_EQ(begin_of({start, text}, nullptr), "corrupt: post_processor: special_tokens: '<s>': no ids");
  EXPECT_EQ(begin_of({start, text}, {{"<s>", {{"ids", {300}}}}}),
            "corrupt: post_processor: special_tokens: '<s>': 300, not a token below 300");
  EXPECT_EQ(begin_of("$A", special), "corrupt: post_processor: single: not an array");
}

TEST(LlamaTokenizer, RefusesOtherPostProcessors) {
  json from = tokenizer_json();
  from["post_processor"] = {{"type", "RobertaProcessing"}, {"cls", {"<s>", 1}}};
  EXPECT_EQ(error_of(from), "unsupported: post_processor: type 'RobertaProcessing', not a single TemplateProcessing");
  const json begin = {{"type", "TemplateProcessing"}, {"single", {{{"Sequence", {{"id", "A"}}}}}}};
  from["post_processor"] = {{"type", "Sequence"}, {"processors", {begin, begin}}};
  EXPECT_EQ(error_of(from), "unsupported: post_processor: type 'TemplateProcessing', not a single TemplateProcessing");
}

TEST(LlamaTokenizer, CharactersOfFilesAreNotThoseOfText) {
  json from = tokenizer_json();
  json& vocabulary = from["model"]["vocab"];
  from["model"]["ignore_merges"] = true;
  vocabulary[" a"] = 256;
  vocabulary
      ["\xC4\xA0"
       "a"] = 257;
  vocabulary["\xE4\xBD\xA0"] = 258;  // each of its three bytes is another character in files
  EXPECT_EQ(*parsed(from).encode("x a"), (tokens{'x', 257}));
  EXPECT_EQ(*parsed(from).encode("\xE4\xBD\xA0"), (tokens{0xE4, 0xBD, 0xA0}));
}

TEST(LlamaTokenizer, RepeatedMergesHaveTheirLastRank) {
  const auto words = parsed(tokenizer_json({{"a", "b"}, {"b", "c"}, {"a", "b"}}));
  EXPECT_EQ(*words.encode("abc"), (tokens{'a', 257}));
}

TEST(LlamaTokenizer, SplitsLikeGpt2) {
  EXPECT_EQ(split("I'll go, it's  12 o'clock\n\n now ", llama::split_pattern::gpt2),
            (pieces{"I", "'ll", " go", ",", " it", "'s", " ", " 12", " o", "'", "clock", "\n\n", " now", " "}));
  EXPECT_EQ(split("\xC3\xA9t\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x81\xE2\x85\xA7", llama::split_pattern::gpt2),
            (pieces{"\xC3\xA9t\xC3\xA9", " \xE4\xBD\xA0\xE5\xA5\xBD", "\xEF\xBC\x81", "\xE2\x85\xA7"}));
  EXPECT_EQ(split("a\xC2\xA0\xE3\x80\x80"
                  "b",
                  llama::split_pattern::gpt2),
            (pieces{"a", "\xC2\xA0", "\xE3\x80\x80", "b"}));
  EXPECT_EQ(split("I'LL", llama::split_pattern::gpt2), (pieces{"I", "'", "LL"}));
}

TEST(LlamaTokenizer, SplitsLikeLlama3) {
  EXPECT_EQ(split("I'LL pay 12345 (now)!\n\n  x\ty \n z  ", llama::split_pattern::llama3),
            (pieces{"I", "'LL", " pay", " ", "123", "45", " (", "now", ")!\n\n", " ", " x", "\ty", " \n", " z", "  "}));
  EXPECT_EQ(split("I'\xC5\xBFx", llama::split_pattern::llama3), (pieces{"I", "'\xC5\xBF", "x"}));  // a long s
  EXPECT_EQ(split("I'\xC5\xBFx", llama::split_pattern::gpt2), (pieces{"I", "'", "\xC5\xBFx"}));
  json from = tokenizer_json();
  from["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"},
                              {"pattern", {{"Regex", llama::llama3_expression}}},
                              {"behavior", "Isolated"},
                              {"invert", false}},
                             {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  EXPECT_EQ(error_of(from), "");
  from["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\s+";
  EXPECT_EQ(error_of(from),
            "unsupported: pre_tokenizer: type 'Split' with this pattern, not ByteLevel, Metaspace, Digits or the Split "
            "of Llama 3 or Qwen2");
}

TEST(LlamaTokenizer, SplitsByNumbers) {
  EXPECT_EQ(split("a12 \xD9\xA3.4", llama::split_pattern::digits), (pieces{"a", "1", "2", " ", "\xD9\xA3", ".", "4"}));
  EXPECT_EQ(split("a12 \xD9\xA3.4", llama::split_pattern::numbers), (pieces{"a", "12", " ", "\xD9\xA3", ".", "4"}));
  json from = tokenizer_json({{"1", "2"}, {"\xC4\xA0", "1"}, {"\xC4\xA0", "\xC4\xA0"}});
  const json bytes = from["pre_tokenizer"];
  const auto split_by = [&](const json& all) {
    from["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", all}};
    return parsed(from);
  };
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  const json numbers = {{"type", "Digits"}, {"individual_digits", false}};
  EXPECT_EQ(split("a\xF0\x91\xB7\xA0", llama::split_pattern::digits), (pieces{"a", "\xF0\x91\xB7\xA0"}));  // U+11DE0
  EXPECT_EQ(*split_by({digits, bytes}).encode("x  12"), (tokens{'x', 258, '1', '2'}));
  EXPECT_EQ(*split_by({numbers, bytes}).encode("x  12"), (tokens{'x', 258, 256}));
  EXPECT_EQ(*split_by(json::array({bytes})).encode("x  12"), (tokens{'x', ' ', ' ', 256}));
  from["pre_tokenizer"]["pretokenizers"] = {bytes, digits};
  EXPECT_EQ(error_of(from), "unsupported: pre_tokenizer: type 'Digits' after ByteLevel or Metaspace");
  from["pre_tokenizer"]["pretokenizers"] = {bytes, bytes};
  EXPECT_EQ(error_of(from), "unsupported: pre_tokenizer: type 'ByteLevel' after ByteLevel or Metaspace");
}

// Counted in UnicodeData.txt, Unicode 16.0.0.
TEST(LlamaTokenizer, ClassesAreThoseOfUnicode16) {
  std::size_t letters = 0, numbers = 0, spaces = 0;
  for (std::uint32_t point = 0; point < 0x110000; ++point) {
    const auto kind = llama::class_of(point);
    letters += kind == llama::character_class::letter;
    numbers += kind == llama::character_class::number;
    spaces += kind == llama::character_class::space;
  }
  EXPECT_EQ(letters, 141028U);
  EXPECT_EQ(numbers, 1911U);
  EXPECT_EQ(spaces, 25U);
  using llama::character_class;
  EXPECT_EQ(llama::class_of(0x558), character_class::other);     // not assigned, between letters
  EXPECT_EQ(llama::class_of(0x105C0), character_class::letter);  // since Unicode 16
  EXPECT_EQ(llama::class_of(0x10D40), character_class::number);
  EXPECT_EQ(llama::class_of(0x11DE0), character_class::other);  // a number since Unicode 17
}

TEST(LlamaTokenizer, AddsASpaceWhereAsked) {
  json from = tokenizer_json();
  from["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(*parsed(from).encode("a"), (tokens{' ', 'a'}));
  EXPECT_EQ(*parsed(from).encode(" a"), (tokens{' ', 'a'}));
  // Each piece of the preceding split gets its own space.
  const json bytes = from["pre_tokenizer"];
  from["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Digits"}}, bytes}}};
  EXPECT_EQ(*parsed(from).encode("a1 b"), (tokens{' ', 'a', ' ', '1', ' ', 'b'}));
}

TEST(LlamaTokenizer, SplitsLikeQwen2) {
  EXPECT_EQ(split("I'LL pay 123 (now)!\n", llama::split_pattern::qwen2),
            (pieces{"I", "'LL", " pay", " ", "1", "2", "3", " (", "now", ")!\n"}));
  json from = tokenizer_json();
  from["normalizer"] = {{"type", "NFC"}};
  from["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", llama::qwen2_expression}}}, {"behavior", "Isolated"}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  from["added_tokens"] = {{{"id", 256}, {"content", "e\u0301"}}};
  const auto words = parsed(from);
  EXPECT_EQ(*words.encode("\u00E9"), (tokens{0xC3, 0xA9}));
  EXPECT_EQ(*words.encode("ae\u0301"), (tokens{'a', 256}));
  EXPECT_EQ(words.encode("o\u0301").error().message(),
            "text contains character 769, which NFC may change; normalize the text first");
}

/// Returns a tokenizer with marks for spaces, and bytes of characters that are not tokens.
json tokenizer_of_characters() {
  json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (unsigned byte = 0; byte < 256; ++byte) {
    constexpr const char* digits = "0123456789ABCDEF";
    vocabulary[std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">"] = byte + 3;
  }
  for (const char* const name : {"\u2581", "a", "b", "\u00E9", "ab", "\u2581ab", "\u2581\u2581"}) {
    vocabulary[name] = vocabulary.size();
  }
  const json merges = {"a b", "\u2581 ab", "\u2581 \u2581"};
  const json marks = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  const json lead = {{"type", "Prepend"}, {"prepend", "\u2581"}};
  return {{"model", {{"type", "BPE"}, {"byte_fallback", true}, {"vocab", vocabulary}, {"merges", merges}}},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", {lead, marks}}}},
          {"added_tokens", {{{"id", 1}, {"content", "<s>"}}}}};
}

TEST(LlamaTokenizer, CharactersMayBeTokens) {
  const std::uint32_t bytes = 3, space = 259, a = 260, b = 261, e = 262, ab = 263, word = 264, spaces = 265;
  json from = tokenizer_of_characters();
  const auto words = parsed(from);
  EXPECT_EQ(*words.encode("ab ab"), (tokens{word, word}));
  EXPECT_EQ(*words.encode(" ba"), (tokens{spaces, b, a}));
  EXPECT_EQ(*words.encode("ab<s>ab\u2581"), (tokens{word, 1, word, space}));
  EXPECT_EQ(*words.encode("\u00E9\u00E8\xFFn"),
            (tokens{space, e, bytes + 0xC3, bytes + 0xA8, bytes + 0xFF, bytes + 'n'}));
  EXPECT_EQ(*words.encode(""), tokens{});
  for (const std::string text : {"", "a b", "\u00E9\u00E8\xFF <0x41>\n"}) {
    EXPECT_EQ(words.decode(*words.encode(text)), text.empty() ? "" : " " + text);
  }
  EXPECT_EQ(words.decode(*words.encode("a\u2581b")), " a b");
  // Normalised added tokens are looked for in their normalised form.
  json normalized = from;
  normalized["added_tokens"][0]["normalized"] = true;
  EXPECT_EQ(*parsed(normalized).encode("<s>ab ab <s>ab"), (tokens{1, ab, word, 1, ab}));
  EXPECT_EQ(parsed(normalized).decode(tokens{1}), "<s>");
  from["normalizer"] = nullptr;
  const auto with_scheme = [&](const char* scheme, const char* text) {
    from["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}, {"split", false}};
    return *parsed(from).encode(text);
  };
  EXPECT_EQ(with_scheme("always", "ab<s>ab<s> ab"), (tokens{word, 1, word, 1, word}));
  EXPECT_EQ(with_scheme("first", "ab<s>ab"), (tokens{word, 1, ab}));
  EXPECT_EQ(with_scheme("first", "<s>ab"), (tokens{1, ab}));
  EXPECT_EQ(with_scheme("never", "ab ab"), (tokens{ab, word}));
}

TEST(LlamaTokenizer, RefusesOtherTokenizersOfCharacters) {
  const auto with = [](const json& changes) {
    json from = tokenizer_of_characters();
    from.merge_patch(changes);
    return error_of(from);
  };
  EXPECT_EQ(with(json::object()), "");
  EXPECT_EQ(with({{"model", {{"byte_fallback", false}}}}), "unsupported: model: no byte_fallback");
  json spaces = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}, {"split", false}};
  EXPECT_EQ(with({{"normalizer", nullptr}, {"pre_tokenizer", spaces}}),
            "unsupported: pre_tokenizer: Metaspace with this replacement");
  spaces["replacement"] = "\u2581";
  spaces.erase("split");
  EXPECT_EQ(with({{"normalizer", nullptr}, {"pre_tokenizer", spaces}}),
            "unsupported: pre_tokenizer: Metaspace that splits");
  spaces["split"] = false;
  spaces["prepend_scheme"] = "sometimes";
  EXPECT_EQ(with({{"normalizer", nullptr}, {"pre_tokenizer", spaces}}),
            "corrupt: pre_tokenizer: prepend_scheme: 'sometimes', not always, first or never");
  EXPECT_EQ(with({{"normalizer", {{"type", "Sequence"}, {"normalizers", nullptr}}}}),
            "corrupt: normalizer: normalizers: not an array");
}

TEST(LlamaTokenizer, RefusesOtherKinds) {
  const auto with = [](const json& changes) {
    json from = tokenizer_json({{"a", "b"}});
    from.merge_patch(changes);
    return error_of(from);
  };
  EXPECT_EQ(with(json::object()), "");
  EXPECT_EQ(with({{"model", nullptr}}), "not found: model is missing");
  EXPECT_EQ(with({{"model", {{"type", "Unigram"}}}}), "unsupported: model of type 'Unigram', not BPE");
  EXPECT_EQ(with({{"model", {{"byte_fallback", true}}}}), "unsupported: model: byte_fallback");
  EXPECT_EQ(with({{"model", {{"dropout", 0.1}}}}), "unsupported: model: dropout");
  EXPECT_EQ(with({{"normalizer", {{"type", "NFKC"}}}}),
            "unsupported: normalizer: type 'NFKC', neither NFC nor marks for spaces");
  EXPECT_EQ(with({{"normalizer", {{"type", "Prepend"}, {"prepend", "\u2581"}}}}),
            "unsupported: normalizer: Prepend alone");
  EXPECT_EQ(with({{"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}),
            "unsupported: pre_tokenizer: type 'ByteLevel' after ByteLevel or Metaspace");
  EXPECT_EQ(with({{"pre_tokenizer", nullptr}}),
            "unsupported: pre_tokenizer: neither byte-level nor with marks for spaces");
}

TEST(LlamaTokenizer, RefusesWhatIsBroken) {
  const auto with = [](const json& changes) {
    json from = tokenizer_json({{"a", "b"}});
    from.merge_patch(changes);
    return error_of(from, 300);
  };
  EXPECT_EQ(with({{"model", {{"vocab", {{"zz", 300}}}}}}),
            "corrupt: token 'zz': its number is 300, but the model's vocabulary has only 300");
  EXPECT_EQ(with({{"model", {{"vocab", {{"zz", "x"}}}}}}), "corrupt: model: vocab: 'zz': not a token number");
  EXPECT_EQ(with({{"model", {{"vocab", {{"zz", -1}}}}}}), "corrupt: model: vocab: 'zz': not a token number");
  EXPECT_EQ(with({{"model", {{"vocab", json::array()}}}}), "corrupt: model: vocab: not an object");
  EXPECT_EQ(with({{"model", {{"merges", {"a b", "b a"}}}}}),
            "corrupt: model: merges[1]: 'b' and 'a' are not tokens that merge into a token");
  for (const json& odd : {json("ab"), json(7), json::array({"a"}), json::array({1, 2})}) {
    EXPECT_NE(with({{"model", {{"merges", json::array({odd})}}}}), "") << odd;
  }
  EXPECT_NE(with({{"model", {{"merges", nullptr}}}}), "");
  EXPECT_NE(with({{"added_tokens", 3}}), "");
  EXPECT_NE(with({{"added_tokens", {3}}}), "");
  EXPECT_NE(with({{"added_tokens", {{{"id", 300}, {"content", "x"}}}}}), "");
  EXPECT_NE(with({{"added_tokens", {{{"id", 3}, {"content", ""}}}}}), "");
  EXPECT_EQ(with({{"model", {{"vocab", {{"zz", 65}}}}}}), "corrupt: token 'zz': another token has its number 65");
  EXPECT_NE(with({{"model", {{"merges", {"a b c"}}}}}), "");
  for (const char* const option : {"single_word", "lstrip", "rstrip"}) {
    EXPECT_EQ(with({{"added_tokens", {{{"id", 257}, {"content", "<x>"}, {option, true}}}}}),
              std::string("unsupported: added_tokens: token '<x>': ") + option);
  }
}

TEST(LlamaTokenizer, BytesWithoutATokenAreNamed) {
  json from = tokenizer_json();
  from["model"]["vocab"].erase("z");
  EXPECT_EQ(parsed(from).encode("zoo").error().message(), "text contains byte 122, which has no token");
}

TEST(LlamaTokenizer, FoldersWithoutOneHaveBytes) {
  const ecq_test::temporary_folder folder;
  EXPECT_EQ(*llama::tokenizer::load(folder.path(), 256)->encode("a"), (tokens{'a'}));
  EXPECT_EQ(llama::tokenizer::load(folder.path(), 255).error().code(), errc::not_found);
  for (const char* const other : {"tokenizer.model", "vocab.json", "tokenizer_config.json"}) {
    const ecq_test::temporary_folder of_other;
    ecq_test::write_file(of_other / other, "{}");
    EXPECT_EQ(llama::tokenizer::load(of_other.path(), 300).error().to_string(),
              "unsupported: '" + (of_other / other).string() + "': tokenizers are read only from tokenizer.json");
  }
  ecq_test::write_file(folder / "tokenizer.json", "{\"model\":");
  EXPECT_TRUE(llama::tokenizer::load(folder.path(), 256).error().message().ends_with("tokenizer.json': is not JSON"));
  ecq_test::write_file(folder / "tokenizer.json", tokenizer_json().dump());
  EXPECT_TRUE(llama::tokenizer::load(folder.path(), 256));
  EXPECT_FALSE(llama::tokenizer::load(folder.path(), 255));
}

}  // namespace
