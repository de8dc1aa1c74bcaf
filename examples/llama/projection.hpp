#pragma once
/// \file
/// The matrices of a transformer layer, and what their tensors are called.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace llama {

/// The matrices of a transformer layer. Those with the same input stand together.
enum class projection : std::uint8_t { query, key, value, output, gate, up, down };
inline constexpr std::size_t projections = 7;

template <class Value>
using by_projection = std::array<Value, projections>;

/// What the tensor of a matrix of a layer is called, and that of its bias.
std::string tensor_name(std::size_t layer, projection which);
std::string bias_name(std::size_t layer, projection which);

/// Whether a matrix has the input of the one before it.
constexpr bool shares_input(std::size_t index) noexcept {
  const auto which = static_cast<projection>(index);
  return which == projection::key || which == projection::value || which == projection::up;
}

}  // namespace llama
