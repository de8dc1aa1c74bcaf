#pragma once
/// \file
/// Matrices of a transformer layer, and the names of their tensors.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace llama {

/// Matrices of a transformer layer. Matrices with the same input are neighbours.
enum class projection : std::uint8_t { query, key, value, output, gate, up, down };
inline constexpr std::size_t projections = 7;
inline constexpr std::size_t attention_projections = 4;
inline constexpr std::size_t feed_forward_projections = projections - attention_projections;

template <class Value>
using by_projection = std::array<Value, projections>;

/// Returns the beginning of the names of a layer's tensors.
std::string layer_name(std::size_t layer);

/// Returns the name of the tensor of a matrix of a layer; bias_name() returns that of its bias.
std::string tensor_name(std::size_t layer, projection which);
std::string bias_name(std::size_t layer, projection which);

/// Returns the index of a matrix in its layer, where gate, up and down of one expert follow those of another.
constexpr std::size_t matrix_index(projection which, std::size_t expert = 0) noexcept {
  return static_cast<std::size_t>(which) + expert * feed_forward_projections;
}

constexpr projection projection_at(std::size_t index) noexcept {
  return static_cast<projection>(
      index < projections ? index : attention_projections + (index - attention_projections) % feed_forward_projections);
}

constexpr std::size_t expert_at(std::size_t index) noexcept {
  return index < projections ? 0 : (index - attention_projections) / feed_forward_projections;
}

/// Whether a matrix has the same input as the one before it.
constexpr bool shares_input(std::size_t index) noexcept {
  const projection which = projection_at(index);
  return which == projection::key || which == projection::value || which == projection::up;
}

}  // namespace llama
