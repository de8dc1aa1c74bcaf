#pragma once
/// \file
/// Names of formats at run time and in files.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ecq/format/affine_uint.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/fp16.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/fp8_e5m2.hpp"
#include "ecq/format/int8.hpp"

namespace ecq {

/// Registered formats; the numbers are wire format and never change meaning.
enum class dtype : std::uint8_t {
  fp32 = 1,
  fp16 = 2,
  bf16 = 3,
  fp8_e4m3 = 4,
  fp8_e5m2 = 5,
  int8 = 6,
  uint8 = 7,
  uint4 = 8,
  table = 9  ///< any other format of one byte per code, whose 256 values come with the matrix
};

/// Whether weights may be stored in format `type` without a scale; integers mean nothing without one.
constexpr bool is_floating_point(dtype type) noexcept { return type >= dtype::fp32 && type <= dtype::fp8_e5m2; }

/// Whether the codes of format `type` count from a zero point (affine_format).
constexpr bool is_affine(dtype type) noexcept { return type == dtype::uint8 || type == dtype::uint4; }

/// Whether the codes of format `type` are integers.
constexpr bool is_integer(dtype type) noexcept { return type == dtype::int8 || is_affine(type); }

/// The registered name of `Format`, or dtype{}, which names no format, for any other type.
template <class Format>
inline constexpr dtype dtype_of = dtype{};
template <>
inline constexpr dtype dtype_of<float> = dtype::fp32;
template <>
inline constexpr dtype dtype_of<fp32> = dtype::fp32;
template <>
inline constexpr dtype dtype_of<fp16> = dtype::fp16;
template <>
inline constexpr dtype dtype_of<bf16> = dtype::bf16;
template <>
inline constexpr dtype dtype_of<fp8_e4m3> = dtype::fp8_e4m3;
template <>
inline constexpr dtype dtype_of<fp8_e5m2> = dtype::fp8_e5m2;
template <>
inline constexpr dtype dtype_of<int8> = dtype::int8;
template <>
inline constexpr dtype dtype_of<uint8> = dtype::uint8;
template <>
inline constexpr dtype dtype_of<uint4> = dtype::uint4;

/// Calls `visitor.template operator()<Format>()` with the format that `type` names; precondition: a registered type
/// other than dtype::table.
template <class Visitor>
constexpr decltype(auto) visit_format(dtype type, Visitor&& visitor) {
  switch (type) {
    case dtype::fp16: return visitor.template operator()<fp16>();
    case dtype::bf16: return visitor.template operator()<bf16>();
    case dtype::fp8_e4m3: return visitor.template operator()<fp8_e4m3>();
    case dtype::fp8_e5m2: return visitor.template operator()<fp8_e5m2>();
    case dtype::int8: return visitor.template operator()<int8>();
    case dtype::uint8: return visitor.template operator()<uint8>();
    case dtype::uint4: return visitor.template operator()<uint4>();
    case dtype::fp32:
    case dtype::table: break;
  }
  return visitor.template operator()<fp32>();
}

/// Like visit_format(), for formats of one byte per code; precondition: `type` is one of these other than dtype::table.
template <class Visitor>
constexpr decltype(auto) visit_code_format(dtype type, Visitor&& visitor) {
  switch (type) {
    case dtype::fp8_e5m2: return visitor.template operator()<fp8_e5m2>();
    case dtype::int8: return visitor.template operator()<int8>();
    case dtype::uint8: return visitor.template operator()<uint8>();
    case dtype::uint4: return visitor.template operator()<uint4>();
    default: break;
  }
  return visitor.template operator()<fp8_e4m3>();
}

/// Returns Format::name of the format that `type` names, or "table".
constexpr std::string_view to_string(dtype type) noexcept {
  if (type == dtype::table) return "table";
  return visit_format(type, [&]<class Format>() { return Format::name; });
}

/// Returns the size in bytes of one element in memory (a uint4 code takes one byte).
constexpr std::size_t size_of(dtype type) noexcept {
  if (type == dtype::table) return 1;
  return visit_format(type, [&]<class Format>() { return sizeof(typename Format::code_type); });
}

/// Every registered format that has a C++ type.
inline constexpr std::array all_dtypes{dtype::fp32,     dtype::fp16, dtype::bf16,  dtype::fp8_e4m3,
                                       dtype::fp8_e5m2, dtype::int8, dtype::uint8, dtype::uint4};

/// Returns the format called `name` ("fp8_e4m3", "bf16", ...), or nothing.
constexpr std::optional<dtype> dtype_from_string(std::string_view name) noexcept {
  for (const dtype type : all_dtypes) {
    if (to_string(type) == name) return type;
  }
  if (name == to_string(dtype::table)) return dtype::table;
  return std::nullopt;
}

/// The dtype of a matrix of codes of `Format`: its registered name if it has one; otherwise uint8 if it is affine,
/// however many integers it has, or else dtype::table.
template <class Format>
inline constexpr dtype code_dtype_of = dtype_of<Format> != dtype{} ? dtype_of<Format>
                                       : affine_format<Format>     ? dtype::uint8
                                                                   : dtype::table;

}  // namespace ecq
