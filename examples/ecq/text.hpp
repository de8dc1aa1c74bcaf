#pragma once
/// \file
/// Text for people: numbers with units, names made printable, tables with aligned columns.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/utf8.hpp"

namespace tool {

using ecq::printable;

/// Returns the number of terminal columns of UTF-8 text, one per code point.
inline std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

/// Returns `value` with `digits` decimals; "-" for NaN.
inline std::string decimal(double value, int digits) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// Returns `value` with `digits` significant digits.
inline std::string significant(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

/// Groups digits: 1234567 -> "1,234,567".
inline std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

/// Returns a number with three significant digits and a decimal unit: 1234567 -> "1.23 M" + `unit`.
inline std::string scaled(double value, std::string_view unit) {
  static constexpr std::string_view prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  for (; value >= 999.5 && prefix + 1 < std::size(prefixes); ++prefix) value /= 1000;
  const int digits = prefix == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::string text = decimal(value, digits) + " ";
  return text.append(prefixes[prefix]).append(unit);
}

inline std::string bytes(std::uint64_t count) { return scaled(static_cast<double>(count), "B"); }

/// Returns a duration such as "4.2 s" or "3:07".
inline std::string duration(double seconds) {
  if (seconds < 59.95) return decimal(seconds, 1) + " s";
  const auto whole = static_cast<unsigned long long>(std::llround(seconds));
  char text[48];
  std::snprintf(text, sizeof text, "%llu:%02llu", whole / 60, whole % 60);
  return text;
}

/// Returns a shape such as "4096x1024".
inline std::string dimensions(std::span<const std::uint64_t> shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (const std::uint64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

/// Returns the last part of a path, printable, and shortened if it is long.
inline std::string short_name(const std::filesystem::path& path) {
  const std::filesystem::path whole = path.has_filename() ? path : path.parent_path();  // of a folder named 'folder/'
  std::string name = printable(whole.filename().string());
  if (display_width(name) <= 40) return name;
  std::size_t end = 37;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0U) == 0x80U) --end;  // not within a code point
  return name.substr(0, end) + "...";
}

/// Table of rows under headings. The first `left` columns hold words; the others hold numbers, aligned right.
class table {
 public:
  table(std::vector<std::string> headings, std::size_t left) : rows_{std::move(headings)}, left_(left) {}

  void add(std::vector<std::string> cells) {
    for (std::string& cell : cells) cell = printable(cell);
    cells.resize(rows_.front().size());
    rows_.push_back(std::move(cells));
  }

  /// Adds a horizontal line between the rows above and below.
  void rule() { rules_.push_back(rows_.size()); }

  friend std::ostream& operator<<(std::ostream& out, const table& shown) {
    std::vector<std::size_t> widths(shown.rows_.front().size());
    std::size_t whole = 0;
    for (std::size_t column = 0; column < widths.size(); ++column) {
      for (const auto& row : shown.rows_) widths[column] = (std::max)(widths[column], display_width(row[column]));
      whole += widths[column] + (column == 0 ? 0 : 2);
    }
    for (std::size_t index = 0; index < shown.rows_.size(); ++index) {
      if (index == 1 || std::find(shown.rules_.begin(), shown.rules_.end(), index) != shown.rules_.end()) {
        out << std::string(whole, '-') << '\n';
      }
      std::string line;
      for (std::size_t column = 0; column < widths.size(); ++column) {
        const std::string& cell = shown.rows_[index][column];
        const std::string padding(widths[column] - display_width(cell), ' ');
        line += column == 0 ? "" : "  ";
        line += column < shown.left_ ? cell + padding : padding + cell;
      }
      out << line.erase(line.find_last_not_of(' ') + 1) << '\n';
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> rules_;
  std::size_t left_;
};

}  // namespace tool
