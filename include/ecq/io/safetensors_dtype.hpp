#pragma once
/// \file
/// Element types of safetensors files.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ecq/format/dtype.hpp"

namespace ecq {

/// An element type of safetensors files.
struct safetensors_dtype {
  std::string_view name;
  unsigned bits;  ///< bits of one element; types below 8 are packed without gaps, and a tensor fills whole bytes
};

/// All element types of the safetensors format as of version 0.6.
inline constexpr std::array<safetensors_dtype, 20> safetensors_dtypes{
    {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8},
     {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16}, {"BF16", 16}, {"I32", 32},
     {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},    {"I64", 64}, {"U64", 64}}};

/// Returns the type that files call `name`, or null. Its `name` member has static storage.
constexpr const safetensors_dtype* find_safetensors_dtype(std::string_view name) noexcept {
  for (const auto& type : safetensors_dtypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

/// Returns the name of `type` in files, which is empty for uint4 (whose codes take a byte each) and table, because
/// these have no counterpart.
constexpr std::string_view safetensors_name(dtype type) noexcept {
  switch (type) {
    case dtype::fp32: return "F32";
    case dtype::fp16: return "F16";
    case dtype::bf16: return "BF16";
    case dtype::fp8_e4m3: return "F8_E4M3";
    case dtype::fp8_e5m2: return "F8_E5M2";
    case dtype::int8: return "I8";
    case dtype::uint8: return "U8";
    case dtype::uint4:
    case dtype::table: break;
  }
  return {};
}

/// Returns the number format of the element type that files call `name`, or nothing if the library has none for it
/// (I64, BOOL, F64, ...).
constexpr std::optional<dtype> dtype_from_safetensors(std::string_view name) noexcept {
  for (const dtype type : all_dtypes) {
    if (!name.empty() && safetensors_name(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace ecq
