#pragma once
/// \file
/// Selection of the tensors of a checkpoint to compress, and their grouping into blocks that share a stream.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/dtype.hpp"

namespace ecq {

/// Whether `text` matches `pattern`, where `*` stands for any run of characters and `?` for any one.
constexpr bool glob_match(std::string_view pattern, std::string_view text) noexcept {
  std::size_t at = 0, star = std::string_view::npos, resume = 0, position = 0;
  while (position < text.size()) {
    if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[position]) && pattern[at] != '*') {
      ++at;
      ++position;
    } else if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = position;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      position = ++resume;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<std::ptrdiff_t>(at), pattern.end(), [](char c) { return c == '*'; });
}

/// Rules that select tensors. Only two kinds can be selected at all: tensors of a weight format (fp32, fp16, bf16,
/// fp8_e4m3, fp8_e5m2) with two or more dimensions, and tensors whose bytes are coded without loss
/// (tensor_summary::as_bytes). No dimension may be empty.
struct tensor_selection {
  /// Patterns of names. A matching tensor is compressed even if it is an embedding (embedding_patterns) or not a linear
  /// weight (direct_patterns).
  std::vector<std::string> include{};
  /// Patterns of names. A matching tensor stays as it is; `exclude` wins over `include`.
  std::vector<std::string> exclude{};
  bool embeddings = false;  ///< embeddings and output heads are compressed without being included by name
  bool everything = false;  ///< embeddings, output heads and tensors that are not linear weights are compressed
  /// ECMAScript regular expression. The text of its first match in a tensor's name is the name of the tensor's block.
  /// Tensors without a match share blocks "tensors.0", "tensors.1", ... in order, each of shared_block_weights weights
  /// or a little more: a stream of its own would cost a small tensor more than it gains.
  std::string block_pattern = R"(^(.*\.)?(layers?|blocks?|h|encoder|decoder)\.[0-9]+)";
};

/// Name patterns of embeddings and output heads, which stay as they are unless tensor_selection includes them, as in
/// the EntQuant paper, section 4 (which quantises only linear layers of the transformer blocks). The patterns are
/// compared with own_name() of a tensor. A matrix without a number in its name that has the shape of an embedding
/// counts as an output head, whatever its name.
inline constexpr std::array embedding_patterns = std::to_array<std::string_view>({"*embed*",
                                                                                  "*lm_head*",
                                                                                  "*wte*",
                                                                                  "*wpe*",
                                                                                  "*token_emb*",
                                                                                  "*position_emb*",
                                                                                  "output.weight",
                                                                                  "*emb.weight",
                                                                                  "*shared.weight",
                                                                                  "head.weight",
                                                                                  "*output_layer.weight",
                                                                                  "*predictions.decoder.weight",
                                                                                  "*shared_head.head.weight",
                                                                                  "*head.fc.weight",
                                                                                  "*classifier.weight",
                                                                                  "score.weight",
                                                                                  "*.score.weight",
                                                                                  "*qa_outputs.weight",
                                                                                  "*vocab_proj.weight",
                                                                                  "generator.weight",
                                                                                  "*time_in.*",
                                                                                  "*vector_in.*",
                                                                                  "*guidance_in.*",
                                                                                  "transformer.ff_out.weight"});

/// Name patterns of tensors that are not linear weights, however many dimensions they have: biases, masks, norms, and
/// tensors that models add or multiply with directly. They stay as they are unless they are included by name.
inline constexpr std::array direct_patterns = std::to_array<std::string_view>({"*bias",
                                                                               "*bias_table",
                                                                               "*norm.weight",
                                                                               "*norm?.weight",
                                                                               "*grn.weight",
                                                                               "*.gamma",
                                                                               "*.beta",
                                                                               "*A_log",
                                                                               "*time_mix*",
                                                                               "*time_maa*",
                                                                               "*time_decay*",
                                                                               "*time_faaaa*",
                                                                               "*time_first*",
                                                                               "*scale_shift_table",
                                                                               "*query_tokens",
                                                                               "*cls_token",
                                                                               "*mask_token",
                                                                               "*rope.freqs",
                                                                               "*relative_attention_bias.weight",
                                                                               "*rel_pos_*",
                                                                               "*attention_biases",
                                                                               "*pos_bias_?",
                                                                               "*_mask",
                                                                               "*register_tokens",
                                                                               "*mask_tokens.weight",
                                                                               "*.modulation",
                                                                               "*_cached",
                                                                               "*alibi_slopes",
                                                                               "*inv_freq",
                                                                               "pe",
                                                                               "*.pe"});

/// Name patterns of routers, which choose experts. A router with at least four times as many columns as rows stays as
/// it is unless it is included by name: it is small, and a wrong expert is a large error.
inline constexpr std::array router_patterns =
    std::to_array<std::string_view>({"*.gate.weight", "*router.weight", "*router.layer.weight",
                                     "*router.classifier.weight", "*shared_expert_gate.weight"});

/// Smallest number of weights per row in tensors of three dimensions or more. Tensors with shorter rows stay as they
/// are unless they are included by name, since a scale per row would cost two bits per weight or more (magnitudes of
/// weight norms, Mamba's kernels of four). So do tensors with only one row (tables, tokens, vectors).
inline constexpr std::uint64_t fewest_columns = 8;

/// Number of channels up to which kernels of convolutions stay as they are unless they are included by name: input
/// channels or, in two dimensions and more, output channels, of kernels shorter than 32 in every direction. Such
/// kernels are small, and meet pixels or one channel alone.
inline constexpr std::uint64_t most_channels_of_pixels = 4;

/// Tensors that belong to no transformer block share a stream until it holds this many weights.
inline constexpr std::uint64_t shared_block_weights = std::uint64_t{1} << 22;

/// Length of the longest name that is matched against the block pattern; std::regex recurses once per character.
inline constexpr std::size_t longest_matched_name = 1024;

/// Number of steps that matching all names against the block pattern may take, besides those for each byte of a name.
/// The default pattern takes about twenty per byte. Others, such as `(a+)+$`, take twice as many steps for each further
/// byte.
inline constexpr std::uint64_t matching_steps = std::uint64_t{1} << 22;
/// Number of steps that matching may take for each byte of a name.
inline constexpr std::uint64_t matching_steps_per_byte = std::uint64_t{1} << 10;

/// The tensors that one stream holds: positions in the list given to select_tensors, ascending.
struct tensor_block {
  std::string name;
  std::vector<std::size_t> tensors;
};

/// The properties of a tensor that select_tensors() looks at.
struct tensor_summary {
  std::string_view name;
  std::optional<dtype> type;  ///< empty: not a format of weights
  std::span<const std::uint64_t> shape;
  bool as_bytes = false;  ///< its bytes are coded without loss, whatever they mean; it need not hold weights
};

namespace detail {

/// Returns the position of the last component of a name that is a number, if there is one behind the first component.
constexpr std::optional<std::size_t> last_number(std::string_view name) noexcept {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t end = name.size(); end != 0;) {
    const std::size_t dot = name.rfind('.', end - 1);
    if (dot == std::string_view::npos) break;
    const std::string_view part = name.substr(dot + 1, end - dot - 1);
    if (!part.empty() && std::all_of(part.begin(), part.end(), is_digit)) return dot + 1;
    end = dot;
  }
  return std::nullopt;
}

}  // namespace detail

/// Returns the part of a name that says what a tensor is, as opposed to where it is: from the component before its last
/// number on ("layers.3.mlp.up.weight" of "text_embedder.encoder.layers.3.mlp.up.weight"). Returns the whole name if it
/// has no number.
constexpr std::string_view own_name(std::string_view name) noexcept {
  const auto number = detail::last_number(name);
  if (!number || *number < 2) return name;
  const std::size_t before = name.rfind('.', *number - 2);
  return name.substr(before == std::string_view::npos ? 0 : before + 1);
}

/// Whether one of the patterns matches `name`.
template <class Patterns>
constexpr bool matches_any(const Patterns& patterns, std::string_view name) noexcept {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](std::string_view pattern) { return glob_match(pattern, name); });
}

/// Whether the rules select this tensor, judged by itself. select_tensors() also leaves out output heads that have the
/// shape of an embedding.
bool is_selected(const tensor_selection& rules, const tensor_summary& tensor);

/// Groups the selected tensors into blocks, ordered by their first tensor. Fails with errc::invalid_argument if the
/// block pattern is not a regular expression, has back-references or takes more than matching_steps.
result<std::vector<tensor_block>> select_tensors(const tensor_selection& rules,
                                                 std::span<const tensor_summary> tensors);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/selection-inl.hpp"
#endif
