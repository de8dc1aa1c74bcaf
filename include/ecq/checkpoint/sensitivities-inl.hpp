#pragma once
/// \file
/// Definition of the sensitivities of tensors.

#include <bit>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <locale>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/sensitivities.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/json_file.hpp"
#include "ecq/io/output_file.hpp"
#include "ecq/io/safetensors_dtype.hpp"

namespace ecq {

namespace detail {

ECQ_INLINE result<double> read_sensitivity(json_reader& json) {
  ECQ_TRY(digits, json.number_text());
  std::istringstream in{std::string(digits)};
  in.imbue(std::locale::classic());
  double value = 0;
  in >> value;
  if (!in || !is_sensitivity(value)) {
    return json.fail("sensitivity ", digits, " is not from 1e-12 to 1e12");
  }
  return value;
}

/// Reads a number, or an array of numbers.
ECQ_INLINE result<std::vector<double>> read_values(json_reader& json) {
  std::vector<double> values;
  const auto next = [&]() -> result<void> {
    ECQ_TRY(value, read_sensitivity(json));
    values.push_back(value);
    return {};
  };
  if (!json.next_is('[')) {
    ECQ_CHECK(next());
    return values;
  }
  ECQ_CHECK(json.array(next));
  if (values.empty()) return json.fail("empty array of sensitivities");
  return values;
}

/// Returns the elements of a tensor of type F64, F32, F16 or BF16; nothing for other types.
ECQ_INLINE std::optional<std::vector<double>> numbers_of(const tensor_entry& tensor, std::span<const std::byte> bytes) {
  if (tensor.dtype == "F64") {
    std::vector<double> numbers(bytes.size() / sizeof(double));
    if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
    return numbers;
  }
  const auto type = dtype_from_safetensors(tensor.dtype);
  if (!type || !is_floating_point(*type) || size_of(*type) == 1) return std::nullopt;
  std::vector<float> numbers(bytes.size() / size_of(*type));
  weights_view(*type, bytes.data(), 1, numbers.size(), 0).load(0, 0, numbers);
  return std::vector<double>(numbers.begin(), numbers.end());
}

}  // namespace detail

ECQ_INLINE double tensor_sensitivity::mean() const noexcept {
  if (values.empty()) return 0;
  // If all values are the same, the mean is that value, without a rounding error.
  double above = 0;
  for (const double value : values) above += value - values.front();
  return values.front() + above / static_cast<double>(values.size());
}

ECQ_INLINE result<sensitivity_map> parse_sensitivities(std::string_view text) {
  return detail::or_out_of_memory("the sensitivities of tensors", [&]() -> result<sensitivity_map> {
    sensitivity_map sensitivities;
    json_reader json(text);
    ECQ_CHECK(json.object([&](const std::string& tensor) -> result<void> {
      ECQ_TRY(values, detail::read_values(json));
      sensitivities.emplace(tensor, std::move(values));
      return {};
    }));
    ECQ_CHECK(json.finish());
    return sensitivities;
  });
}

ECQ_INLINE result<sensitivity_map> sensitivities_of(const safetensors_file& file) {
  if constexpr (std::endian::native != std::endian::little) {
    return error(errc::unsupported, "sensitivities in safetensors files need a little-endian machine");
  }
  return detail::or_out_of_memory("the sensitivities of tensors", [&]() -> result<sensitivity_map> {
    sensitivity_map sensitivities;
    for (const tensor_entry& tensor : file.tensors()) {
      const auto fails = [&](errc kind, const auto&... parts) {
        return error(kind, detail::quoted(file.path()), ": tensor '", tensor.name, "': ", parts...);
      };
      const std::vector<std::uint64_t>& shape = tensor.shape;
      if (shape.size() > 2 || (shape.size() == 2 && shape[1] != 1)) {
        return fails(errc::corrupt, "has ", shape.size(), " dimensions; expected one sensitivity, or one for each row");
      }
      const auto values = detail::numbers_of(tensor, file.bytes(tensor));
      if (!values) return fails(errc::unsupported, "sensitivities of type ", tensor.dtype);
      if (values->empty()) return fails(errc::corrupt, "no sensitivities");
      for (std::size_t row = 0; row < values->size(); ++row) {
        if (detail::is_sensitivity((*values)[row])) continue;
        return fails(errc::corrupt, "sensitivity ", (*values)[row], " in row ", row, " is not from 1e-12 to 1e12");
      }
      sensitivities.emplace(tensor.name, *values);
    }
    return sensitivities;
  });
}

ECQ_INLINE result<sensitivity_map> read_sensitivities(const std::filesystem::path& path) {
  if (path.extension() != ".safetensors") return parse_json_file(path, parse_sensitivities);
  ECQ_TRY(file, safetensors_file::open(path));
  return sensitivities_of(file);
}

ECQ_INLINE result<void> check_sensitivities(const sensitivity_map& sensitivities, const checkpoint& model) {
  for (const auto& each : sensitivities) {
    if (model.find(each.first) == nullptr) {
      return error(errc::not_found, "tensor '", each.first, "' has a sensitivity, but is not in the model");
    }
  }
  return {};
}

}  // namespace ecq
