// Text to tokens and back, and tokenizers that are refused.

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

/// The characters of files for bytes, as the published definition lists them.
std::string byte_character(unsigned byte) {
  const auto utf8 = [](unsigned point) {
    if (point < 0x80) return std::string(1, static_cast<char>(point));
    return std::string{static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
  };
  if ((byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE) return utf8(byte);
  unsigned place = byte;  // 0 to 32 are the first that have no character of their own
  if (byte >= 0x7F) place = byte - 0x7F + 33;
  if (byte == 0xAD) place = 33 + 34;  // behind 0x7F to 0xA0
  return utf8(256 + place);
}

/// 256 bytes by their numbers, then `merges` in order.
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
  from["added_tokens"] = {{{"id", 300}, {"content", "<|end|>"}}, {{"id", 301}, {"content", "<|end|>>"}}};
  from["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {{{"SpecialToken", {{"id", "<|end|>"}}}}, {{"Sequence", {{"id", "A"}}}}}}};
  const auto words = parsed(from);
  EXPECT_EQ(*words.encode("a<|end|>b<|end|>>"), (tokens{'a', 300, 'b', 301}));
  EXPECT_EQ(words.decode(*words.encode("<|end|>x")), "<|end|>x");
  EXPECT_EQ(words.begin(), (tokens{300}));
  EXPECT_EQ(words.decode(tokens{'a', 299, 5000}), "a\uFFFD\uFFFD");
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
            "unsupported: pre_tokenizer: type 'Split' by this pattern, not ByteLevel or Llama 3's Split");
}

TEST(LlamaTokenizer, AddsASpaceWhereAsked) {
  json from = tokenizer_json();
  from["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(*parsed(from).encode("a"), (tokens{' ', 'a'}));
  EXPECT_EQ(*parsed(from).encode(" a"), (tokens{' ', 'a'}));
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
  EXPECT_EQ(with({{"normalizer", {{"type", "NFC"}}}}), "unsupported: normalizer of type 'NFC'");
  EXPECT_EQ(with({{"pre_tokenizer", nullptr}}), "unsupported: pre_tokenizer: is not byte-level");
  EXPECT_NE(with({{"pre_tokenizer", {{"type", "Metaspace"}}}}), "");
}

TEST(LlamaTokenizer, RefusesWhatIsBroken) {
  const auto with = [](const json& changes) {
    json from = tokenizer_json({{"a", "b"}});
    from.merge_patch(changes);
    return error_of(from, 300);
  };
  EXPECT_EQ(with({{"model", {{"vocab", {{"zz", 300}}}}}}),
            "corrupt: token 'zz': its number is 300, the model's vocabulary has 300");
  EXPECT_EQ(with({{"model", {{"vocab", {{"zz", "x"}}}}}}), "corrupt: model: vocab: 'zz': no token number");
  EXPECT_EQ(with({{"model", {{"vocab", {{"zz", -1}}}}}}), "corrupt: model: vocab: 'zz': no token number");
  EXPECT_EQ(with({{"model", {{"vocab", json::array()}}}}), "corrupt: model: vocab: no object");
  EXPECT_EQ(with({{"model", {{"merges", {"a b", "b a"}}}}}),
            "corrupt: model: merges[1]: 'b' and 'a' are not tokens that make a token");
  for (const json& odd : {json("ab"), json(7), json::array({"a"}), json::array({1, 2})}) {
    EXPECT_NE(with({{"model", {{"merges", json::array({odd})}}}}), "") << odd;
  }
  EXPECT_NE(with({{"model", {{"merges", nullptr}}}}), "");
  EXPECT_NE(with({{"added_tokens", 3}}), "");
  EXPECT_NE(with({{"added_tokens", {3}}}), "");
  EXPECT_NE(with({{"added_tokens", {{{"id", 300}, {"content", "x"}}}}}), "");
  EXPECT_NE(with({{"added_tokens", {{{"id", 3}, {"content", ""}}}}}), "");
  EXPECT_NE(
      with({{"post_processor", {{"type", "TemplateProcessing"}, {"single", {{{"SpecialToken", {{"id", "<s>"}}}}}}}}}),
      "");
}

TEST(LlamaTokenizer, BytesWithoutATokenAreNamed) {
  json from = tokenizer_json();
  from["model"]["vocab"].erase("z");
  EXPECT_EQ(parsed(from).encode("zoo").error().message(), "text with the byte 122, for which there is no token");
}

TEST(LlamaTokenizer, FoldersWithoutOneHaveBytes) {
  const ecq_test::temporary_folder folder;
  EXPECT_EQ(*llama::tokenizer::load(folder.path(), 256)->encode("a"), (tokens{'a'}));
  EXPECT_EQ(llama::tokenizer::load(folder.path(), 255).error().code(), errc::not_found);
  ecq_test::write_file(folder / "tokenizer.json", "{\"model\":");
  EXPECT_TRUE(llama::tokenizer::load(folder.path(), 256).error().message().ends_with("tokenizer.json': is not JSON"));
  ecq_test::write_file(folder / "tokenizer.json", tokenizer_json().dump());
  EXPECT_TRUE(llama::tokenizer::load(folder.path(), 256));
  EXPECT_FALSE(llama::tokenizer::load(folder.path(), 255));
}

}  // namespace
