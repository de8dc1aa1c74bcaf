#pragma once
/// \file
/// Sensitivities: how much the loss of a model depends on each of its tensors, or on each of their rows.

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/safetensors.hpp"

namespace ecq {

/// Sensitivity of a tensor: one number for the whole tensor, or one for each row.
struct tensor_sensitivity {
  std::vector<double> values{};

  tensor_sensitivity() = default;
  tensor_sensitivity(double whole) : values{whole} {}
  tensor_sensitivity(std::vector<double> of_rows) : values(std::move(of_rows)) {}

  /// Returns the sensitivity of the whole tensor: the mean of those of rows, since their errors add up; 0 without
  /// values.
  double mean() const noexcept;

  bool operator==(const tensor_sensitivity&) const = default;
};

/// Sensitivities of tensors by their names. A sensitivity says how fast the loss rises, for each weight of the tensor
/// or of the row, with the squared error of its weights relative to the mean square of the tensor's weights. Only
/// ratios matter: a tensor whose sensitivity is s times the geometric mean of those of all tensors has s^(-3/4) times
/// the lambda, so its step is about s^(-3/8) times that of the others. The same holds for rows. (Theory has -1/2 for
/// steps; at 2 to 3 bits per weight, less has been measured to be better.)
///
/// EntQuant uses the sensitivities of rows, and so does tcq if rows have scales of their own (tcq::has_scaled_rows).
/// Methods with one step per matrix use tensor_sensitivity::mean().
using sensitivity_map = std::map<std::string, tensor_sensitivity>;

/// Smallest value of a sensitivity.
inline constexpr double least_sensitivity = 1e-12;
inline constexpr double greatest_sensitivity = 1e12;  ///< largest value of a sensitivity

namespace detail {

inline bool is_sensitivity(double value) noexcept {
  return value >= least_sensitivity && value <= greatest_sensitivity;
}

}  // namespace detail

/// Reads sensitivities from JSON, {"model.layers.0.mlp.down_proj.weight": 0.93, ...}, where an array has one number for
/// each row; an array of one number stands for the whole tensor. Errors: errc::corrupt, naming the byte, for anything
/// else, for empty arrays and for numbers out of range.
result<sensitivity_map> parse_sensitivities(std::string_view text);

/// Reads sensitivities from a safetensors file. Its tensors have the names of the model's tensors, and hold one number
/// (of shape [] or [1]) or one for each row ([rows] or [rows, 1]), of type F64, F32, F16 or BF16. Errors, which name
/// the tensor: errc::unsupported for other types and on machines that are not little endian; errc::corrupt for other
/// shapes, tensors without numbers and numbers out of range.
result<sensitivity_map> sensitivities_of(const safetensors_file& file);

/// Reads a file of sensitivities: safetensors if its name ends in .safetensors, or else JSON. Errors name the file:
/// those of parse_json_file and parse_sensitivities, or of safetensors_file::open and sensitivities_of.
result<sensitivity_map> read_sensitivities(const std::filesystem::path& path);

/// Fails with errc::not_found if one of the tensors is not in `model`.
result<void> check_sensitivities(const sensitivity_map& sensitivities, const checkpoint& model);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/sensitivities-inl.hpp"
#endif
