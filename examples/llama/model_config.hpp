#pragma once
/// \file
/// Shape of a Llama-like decoder, from its config.json.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "ecq/base/result.hpp"
#include "json_file.hpp"
#include "mixture.hpp"
#include "projection.hpp"
#include "rotary.hpp"

namespace llama {

/// Shape and constants of a decoder. Every size is at least 1.
struct model_config {
  std::size_t hidden = 0;        ///< width of the residual stream
  std::size_t intermediate = 0;  ///< width of the gated layer, of an expert's if there are experts
  std::size_t layers = 0;
  std::size_t heads = 0;       ///< of queries; a multiple of key_heads
  std::size_t key_heads = 0;   ///< of keys and of values, each shared by heads / key_heads queries
  std::size_t head_width = 0;  ///< even
  std::size_t vocabulary = 0;
  std::size_t positions = 0;  ///< the longest context
  double norm_epsilon = 1e-6;
  rotary_embedding rotary{};
  bool tied = false;             ///< whether the embedding is the output head, too
  by_projection<bool> biases{};  ///< whether products have a bias added; those that share an input all do, or none
  bool head_norms = false;       ///< whether each head of queries and keys is normalised before it is rotated
  expert_mixture mixture{};
  std::size_t window = 0;  ///< tokens that a token attends to, itself included; at least 1
  std::optional<std::uint32_t> begin_token{};
  std::vector<std::uint32_t> end_tokens{};

  std::size_t query_width() const noexcept { return heads * head_width; }
  std::size_t key_width() const noexcept { return key_heads * head_width; }
};

/// Reads the shape of a decoder from a config.json: Llama's, or that of a similar one (Mistral, Mixtral, Qwen2, Qwen3
/// and its mixture of experts). Errors name the member: ecq::errc::unsupported for another architecture, rotary
/// embeddings of another type, another activation, other windows of attention than Mistral's, layers both with and
/// without experts, or weights that another program has quantised; ecq::errc::not_found for a size that is missing;
/// ecq::errc::corrupt for values that are wrong or contradict each other.
ecq::result<model_config> parse_model_config(const json& from);

/// Reads config.json in `folder`. If there is a generation_config.json, the tokens that begin and end texts are only
/// those in it. Errors name the file, and are those of parse_model_config.
ecq::result<model_config> read_model_config(const std::filesystem::path& folder);

}  // namespace llama
