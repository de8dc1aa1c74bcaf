#pragma once
/// \file
/// Definition of a container's description.

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/container/description.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/limits.hpp"
#include "ecq/io/safetensors.hpp"
#include "ecq/io/safetensors_dtype.hpp"
#include "ecq/packed.hpp"

namespace ecq {

ECQ_INLINE std::optional<std::pair<std::uint64_t, std::uint64_t>> rows_and_columns(
    const packed_matrix& matrix) noexcept {
  const auto columns = matrix_columns(matrix.shape);
  if (matrix.element_type.empty()) {
    if (!columns) return std::nullopt;
    return std::pair(matrix.shape[0], *columns);
  }
  const safetensors_dtype* type = find_safetensors_dtype(matrix.element_type);
  if (type == nullptr) return std::nullopt;
  const auto bytes = tensor_bytes(*type, matrix.shape);
  if (!bytes || *bytes > static_cast<std::uint64_t>((std::numeric_limits<std::ptrdiff_t>::max)())) return std::nullopt;
  return std::pair(*bytes, std::uint64_t{1});
}

namespace detail {

ECQ_INLINE std::string hex64(std::uint64_t value) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t index = text.size(); index-- > 0; value >>= 4) text[index] = digits[value & 15U];
  return text;
}

ECQ_INLINE std::optional<std::uint64_t> parse_hex64(std::string_view text) noexcept {
  std::uint64_t value = 0;
  if (text.size() != 16) return std::nullopt;
  for (const char digit : text) {
    if (!(digit >= '0' && digit <= '9') && !(digit >= 'a' && digit <= 'f')) return std::nullopt;
    value = (value << 4) | static_cast<std::uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
  }
  return value;
}

/// Returns the bits of an FP32 as 8 hexadecimal digits, highest first.
ECQ_INLINE std::string hex_bits(float value) { return hex64(std::bit_cast<std::uint32_t>(value)).substr(8); }

/// Reads an object that has these keys, in any order, and no others: `member(index of the key)` reads each value. The
/// first `required` keys must be present.
template <std::size_t Count, class Member>
result<void> read_members(json_reader& json, const std::array<std::string_view, Count>& keys, Member&& member,
                          std::size_t required = Count) {
  std::array<bool, Count> seen{};
  ECQ_CHECK(json.object([&](const std::string& key) -> result<void> {
    const auto found = std::find(keys.begin(), keys.end(), key);
    if (found == keys.end()) return error(errc::unsupported, json.fail("unknown key '", key, "'").message());
    const auto index = static_cast<std::size_t>(found - keys.begin());
    seen[index] = true;
    return member(index);
  }));
  const auto end = seen.begin() + static_cast<std::ptrdiff_t>(required);
  const auto missing = std::find(seen.begin(), end, false);
  if (missing == end) return {};
  return json.fail("the object that ends here has no '", keys[static_cast<std::size_t>(missing - seen.begin())], "'");
}

/// Reads the next value into `out`.
ECQ_INLINE result<void> read_into(json_reader& json, std::string& out) {
  ECQ_TRY(value, json.string());
  out = std::move(value);
  return {};
}

template <std::unsigned_integral Integer>
result<void> read_into(json_reader& json, Integer& out) {
  ECQ_TRY(value, json.integer());
  if (!std::in_range<Integer>(value)) return json.fail("integer too large for this machine");
  out = static_cast<Integer>(value);
  return {};
}

ECQ_INLINE result<void> read_into(json_reader& json, dtype& out) {
  ECQ_TRY(value, json.string());
  const auto type = dtype_from_string(value);
  if (!type) return error(errc::unsupported, json.fail("unknown format '", value, "'").message());
  out = *type;
  return {};
}

/// Reads a matrix and the number of its exact weights.
ECQ_INLINE result<std::pair<packed_matrix, std::uint64_t>> parse_matrix(json_reader& json) {
  static constexpr std::array<std::string_view, 10> keys{
      "name",         "shape", "original",     "format", "rows_per_group", "columns_per_group",
      "first_symbol", "zero",  "element_type", "exact"};
  packed_matrix matrix;
  std::uint64_t exact = 0;
  ECQ_CHECK(read_members(
      json, keys,
      [&](std::size_t key) -> result<void> {
        switch (key) {
          case 0: return read_into(json, matrix.name);
          case 1:
            return json.array([&]() -> result<void> {
              if (matrix.shape.size() == file_limits::dimensions) return json.fail("too many dimensions");
              ECQ_TRY(extent, json.integer());
              matrix.shape.push_back(extent);
              return {};
            });
          case 2: return read_into(json, matrix.original);
          case 3: return read_into(json, matrix.format);
          case 4: return read_into(json, matrix.layout.rows_per_group);
          case 5: return read_into(json, matrix.layout.columns_per_group);
          case 6: return read_into(json, matrix.first_symbol);
          case 8: return read_into(json, matrix.element_type);
          case 9: {
            ECQ_TRY(count, json.integer());
            if (count == 0) return json.fail("number of exact weights is 0");
            exact = count;
            return {};
          }
          default: {
            ECQ_TRY(digits, json.string());
            const auto bits = parse_hex64("00000000" + digits);  // which takes exactly 16 digits
            if (!bits) return json.fail("expected 8 hexadecimal digits");
            if (*bits == 0x80000000U) return json.fail("zero point is -0");
            matrix.zero = std::bit_cast<float>(static_cast<std::uint32_t>(*bits));
            return {};
          }
        }
      },
      keys.size() - 3));
  const auto extents = rows_and_columns(matrix);
  if (!extents) {
    return error(errc::corrupt, "matrix '", matrix.name, "': no rows, more than 2^63 elements, or an unknown type");
  }
  matrix.layout.rows = static_cast<std::size_t>(extents->first);
  matrix.layout.columns = static_cast<std::size_t>(extents->second);
  return std::pair(std::move(matrix), exact);
}

ECQ_INLINE result<block_description> parse_block(json_reader& json) {
  static constexpr std::array<std::string_view, 3> keys{"name", "symbols", "matrices"};
  block_description block;
  ECQ_CHECK(read_members(json, keys, [&](std::size_t key) -> result<void> {
    switch (key) {
      case 0: return read_into(json, block.name);
      case 1: return read_into(json, block.symbols);
      default:
        return json.array([&]() -> result<void> {
          ECQ_TRY(matrix, parse_matrix(json));
          block.matrices.push_back(std::move(matrix.first));
          block.exact.push_back(matrix.second);
          return {};
        });
    }
  }));
  auto checked = check_block(block);
  if (!checked) return std::move(checked).error().within("block '", block.name, "'");
  return block;
}

ECQ_INLINE result<void> check_unique_names(const container_description& description) {
  std::set<std::string_view> blocks, matrices;
  for (const block_description& block : description.blocks) {
    if (!blocks.insert(block.name).second) return error(errc::corrupt, "block '", block.name, "' occurs twice");
    for (const packed_matrix& matrix : block.matrices) {
      if (matrices.insert(matrix.name).second) continue;
      return error(errc::corrupt, "matrix '", matrix.name, "' occurs twice");
    }
  }
  return {};
}

}  // namespace detail

ECQ_INLINE result<void> check_block(const block_description& block) {
  if (block.matrices.empty()) return error(errc::corrupt, "has no matrices");
  if (!block.exact.empty() && block.exact.size() != block.matrices.size()) {
    return error(errc::corrupt, block.exact.size(), " counts of exact weights for ", block.matrices.size(),
                 " matrices");
  }
  std::vector<const packed_matrix*> order;
  for (std::size_t index = 0; index < block.matrices.size(); ++index) {
    const packed_matrix& matrix = block.matrices[index];
    const auto bad = [&](const auto&... parts) {
      return error(errc::corrupt, "matrix '", matrix.name, "': ", parts...);
    };
    const group_layout& layout = matrix.layout;
    const auto extents = rows_and_columns(matrix);
    if (!extents || layout.rows != extents->first || layout.columns != extents->second) {
      return bad("its shape is not ", layout.rows, " x ", layout.columns);
    }
    if ((layout.rows_per_group == 0) != (layout.columns_per_group == 0)) return bad("groups without rows or columns");
    if (matrix.is_bytes() == matrix.element_type.empty()) {
      return bad("bytes must have an element type, and nothing else may have one");
    }
    if (matrix.lossless() &&
        (matrix.format != matrix.original || !(matrix.is_bytes() || is_floating_point(matrix.format)))) {
      return bad(to_string(matrix.original), " cannot be stored as ", to_string(matrix.format), " without scales");
    }
    if (!matrix.lossless() && size_of(matrix.format) != 1) {
      return bad("its codes, ", to_string(matrix.format), ", are not bytes");
    }
    if (matrix.zero != 0 && (matrix.lossless() || !is_affine(matrix.format))) {
      return bad(to_string(matrix.format), matrix.lossless() ? " without loss" : "", " cannot have a zero point");
    }
    if (block.exact_of(index) > (matrix.lossless() ? 0 : extents->first * extents->second)) {
      return bad(block.exact_of(index), " exact weights are too many for ", extents->first * extents->second,
                 " weights", matrix.lossless() ? " without loss" : "");
    }
    if (matrix.original == dtype::table) return bad("its original type cannot be a table");
    if (!fp32::is_finite(std::bit_cast<std::uint32_t>(matrix.zero))) return bad("its zero point is not finite");
    const packed_matrix& one = block.matrices.front();
    if (matrix.lossless() != one.lossless() || (matrix.lossless() && matrix.format != one.format)) {
      return bad("matrices of a block must all be lossless in one format, or none of them");
    }
    const std::uint64_t weights = extents->first * extents->second;
    if (matrix.first_symbol > block.symbols || weights > block.symbols - matrix.first_symbol) {
      return bad("symbols ", matrix.first_symbol, " + ", weights, " exceed the stream's ", block.symbols);
    }
    if (weights != 0) order.push_back(&matrix);
  }
  std::sort(order.begin(), order.end(), [](const packed_matrix* left, const packed_matrix* right) {
    return left->first_symbol < right->first_symbol;
  });
  for (std::size_t index = 1; index < order.size(); ++index) {
    const packed_matrix& before = *order[index - 1];
    if (order[index]->first_symbol - before.first_symbol >= before.layout.rows * before.layout.columns) continue;
    return error(errc::corrupt, "matrices '", before.name, "' and '", order[index]->name,
                 "' share symbols of the stream");
  }
  return {};
}

ECQ_INLINE std::string to_json(const container_description& description) {
  std::string text = "{\"version\":" + std::to_string(container_version);
  const auto string_member = [&](std::string_view key, std::string_view value) {
    text += key;
    append_json_string(text, value);
  };
  const auto integer_member = [&](std::string_view key, std::uint64_t value) {
    text += key;
    text += std::to_string(value);
  };
  string_member(",\"tool\":", description.tool);
  string_member(",\"settings\":", description.settings);
  text += ",\"blocks\":[";
  std::string_view block_separator;
  for (const block_description& block : description.blocks) {
    text += block_separator;
    block_separator = ",";
    string_member("{\"name\":", block.name);
    integer_member(",\"symbols\":", block.symbols);
    text += ",\"matrices\":[";
    std::string_view separator;
    for (std::size_t index = 0; index < block.matrices.size(); ++index) {
      const packed_matrix& matrix = block.matrices[index];
      text += separator;
      separator = ",";
      string_member("{\"name\":", matrix.name);
      std::string_view opening = ",\"shape\":[";
      for (const std::uint64_t extent : matrix.shape) integer_member(std::exchange(opening, ","), extent);
      string_member("],\"original\":", to_string(matrix.original));
      string_member(",\"format\":", to_string(matrix.format));
      integer_member(",\"rows_per_group\":", matrix.layout.rows_per_group);
      integer_member(",\"columns_per_group\":", matrix.layout.columns_per_group);
      integer_member(",\"first_symbol\":", matrix.first_symbol);
      if (matrix.zero != 0) string_member(",\"zero\":", detail::hex_bits(matrix.zero));
      if (!matrix.element_type.empty()) string_member(",\"element_type\":", matrix.element_type);
      if (block.exact_of(index) != 0) integer_member(",\"exact\":", block.exact_of(index));
      text += '}';
    }
    text += "]}";
  }
  text += "],\"checksums\":{";
  std::string_view separator;
  for (const tensor_checksum& checksum : description.checksums) {
    string_member(std::exchange(separator, ","), checksum.tensor);
    string_member(":", detail::hex64(checksum.value));
  }
  text += "}}";
  return text;
}

ECQ_INLINE result<container_description> parse_description(std::string_view text) {
  static constexpr std::array<std::string_view, 5> keys{"version", "tool", "settings", "blocks", "checksums"};
  container_description description;
  json_reader json(text);
  bool version_read = false;
  ECQ_CHECK(detail::read_members(json, keys, [&](std::size_t key) -> result<void> {
    // The version must come first, so that members of another version are not reported instead of the version.
    if (std::exchange(version_read, true) == (key == 0)) return json.fail("the version must come first");
    switch (key) {
      case 0: {
        ECQ_TRY(version, json.integer());
        if (version == container_version) return {};
        return error(errc::unsupported, "container version ", version, ", but this reader knows only ",
                     container_version);
      }
      case 1: return detail::read_into(json, description.tool);
      case 2: return detail::read_into(json, description.settings);
      case 3:
        return json.array([&]() -> result<void> {
          ECQ_TRY(block, detail::parse_block(json));
          description.blocks.push_back(std::move(block));
          return {};
        });
      default:
        return json.object([&](const std::string& tensor) -> result<void> {
          ECQ_TRY(digits, json.string());
          const auto value = detail::parse_hex64(digits);
          if (!value) return json.fail("expected 16 hexadecimal digits");
          description.checksums.push_back({tensor, *value});
          return {};
        });
    }
  }));
  ECQ_CHECK(json.finish());
  ECQ_CHECK(detail::check_unique_names(description));
  return description;
}

}  // namespace ecq
