#pragma once
/// \file
/// Definition of the selection of tensors by rules.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/text.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/format/dtype.hpp"

namespace ecq {

namespace detail {

/// Whether a tensor is a kernel of a convolution of few channels (most_channels_of_pixels).
ECQ_INLINE bool is_kernel_of_pixels(std::span<const std::uint64_t> shape) {
  const auto is_short = [](std::uint64_t extent) { return extent < 32; };
  if (!std::ranges::all_of(shape.subspan(2), is_short)) return false;
  return shape[1] <= most_channels_of_pixels || (shape.size() >= 4 && shape[0] <= most_channels_of_pixels);
}

/// Whether a tensor of weights has three dimensions or more, but only one row, rows of few weights (fewest_columns) or
/// few channels.
ECQ_INLINE bool is_thin(std::span<const std::uint64_t> shape) {
  if (shape.size() < 3) return false;
  std::uint64_t columns = 1;
  for (const std::uint64_t extent : shape.subspan(1)) columns = (std::min)(columns, fewest_columns) * extent;
  return shape[0] == 1 || columns < fewest_columns || is_kernel_of_pixels(shape);
}

/// Whether a tensor chooses experts (router_patterns).
ECQ_INLINE bool is_router(const tensor_summary& tensor) {
  return tensor.shape.size() == 2 && tensor.shape[1] / 4 >= tensor.shape[0] &&
         matches_any(router_patterns, tensor.name);
}

/// Rows and columns of matrices.
using matrix_shapes = std::set<std::pair<std::uint64_t, std::uint64_t>>;

/// Returns the shapes of the embeddings among the tensors.
ECQ_INLINE matrix_shapes embedding_shapes(std::span<const tensor_summary> tensors) {
  matrix_shapes shapes;
  for (const tensor_summary& tensor : tensors) {
    if (tensor.shape.size() == 2 && matches_any(embedding_patterns, own_name(tensor.name))) {
      shapes.emplace(tensor.shape[0], tensor.shape[1]);
    }
  }
  return shapes;
}

/// Whether a tensor has one of the shapes of embeddings, and no number in its name.
ECQ_INLINE bool is_output_head(const tensor_summary& tensor, const matrix_shapes& embeddings) {
  return tensor.shape.size() == 2 && !last_number(tensor.name) &&
         embeddings.contains({tensor.shape[0], tensor.shape[1]});
}

}  // namespace detail

ECQ_INLINE bool is_selected(const tensor_selection& rules, const tensor_summary& tensor) {
  const bool of_weights = tensor.type && is_floating_point(*tensor.type) && tensor.shape.size() >= 2;
  if (!of_weights && !tensor.as_bytes) return false;
  if (std::any_of(tensor.shape.begin(), tensor.shape.end(), [](std::uint64_t extent) { return extent == 0; })) {
    return false;
  }
  if (matches_any(rules.exclude, tensor.name)) return false;
  if (rules.everything || matches_any(rules.include, tensor.name)) return true;
  return !(of_weights && detail::is_thin(tensor.shape)) && !detail::is_router(tensor) &&
         !matches_any(direct_patterns, tensor.name) &&
         (rules.embeddings || !matches_any(embedding_patterns, own_name(tensor.name)));
}

namespace detail {

/// An iterator over a name that counts down `steps` whenever std::regex copies, compares or dereferences it, and stops
/// the matching, by an exception, when no steps are left. std::regex backtracks without bound, but it tries nothing
/// without one of these operations, except for back-references.
class counted_position {
 public:
  using iterator_category = std::bidirectional_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  counted_position() = default;
  counted_position(const char* at, std::uint64_t& steps) noexcept : at_(at), steps_(&steps) {}
  counted_position(const counted_position& other) : at_(other.at_), steps_(other.steps_) { count(); }
  counted_position& operator=(const counted_position& other) {
    if (this != &other) {
      at_ = other.at_;
      steps_ = other.steps_;
    }
    count();
    return *this;
  }
  ~counted_position() = default;

  const char* address() const noexcept { return at_; }

  reference operator*() const {
    count();
    return *at_;
  }
  counted_position& operator++() noexcept {
    ++at_;
    return *this;
  }
  counted_position& operator--() noexcept {
    --at_;
    return *this;
  }
  counted_position operator++(int) { return {at_++, *steps_}; }
  counted_position operator--(int) { return {at_--, *steps_}; }
  friend bool operator==(const counted_position& left, const counted_position& right) {
    left.count();
    return left.at_ == right.at_;
  }

 private:
  void count() const {
    if (steps_ == nullptr) return;
    if (*steps_ == 0) throw std::regex_error(std::regex_constants::error_complexity);
    --*steps_;
  }

  const char* at_ = nullptr;
  std::uint64_t* steps_ = nullptr;
};

/// Whether a regular expression has a back-reference, from \1 to \9.
constexpr bool has_back_reference(std::string_view pattern) noexcept {
  for (std::size_t at = 0; at + 1 < pattern.size(); ++at) {
    if (pattern[at] != '\\') continue;
    ++at;
    if (pattern[at] >= '1' && pattern[at] <= '9') return true;
  }
  return false;
}

/// Returns the text of the pattern's first match in `name`, or an empty text. Throws std::regex_error
/// (error_complexity) if it takes more than `steps`, which it counts down.
ECQ_INLINE std::string_view first_match(const std::regex& pattern, std::string_view name, std::uint64_t& steps) {
  const counted_position begin(name.data(), steps), end(name.data() + name.size(), steps);
  std::match_results<counted_position> match;
  if (!std::regex_search(begin, end, match, pattern)) return {};
  return {match[0].first.address(), match[0].second.address()};
}

}  // namespace detail

ECQ_INLINE result<std::vector<tensor_block>> select_tensors(const tensor_selection& rules,
                                                            std::span<const tensor_summary> tensors) {
  if (detail::has_back_reference(rules.block_pattern)) {
    return error(errc::invalid_argument, "block pattern '", rules.block_pattern, "': back-references are not allowed");
  }
  std::regex pattern;
  try {
    pattern.assign(rules.block_pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& failure) {
    return error(errc::invalid_argument, "block pattern '", rules.block_pattern, "': ", failure.what());
  }
  std::uint64_t steps = matching_steps;
  for (const tensor_summary& tensor : tensors) steps += tensor.name.size() * matching_steps_per_byte;
  std::vector<tensor_block> blocks;
  std::map<std::string, std::size_t, std::less<>> index_of;
  std::size_t shared_blocks = 0;
  std::uint64_t room = 0;  // weights that the last shared block still takes
  const auto embeddings = detail::embedding_shapes(tensors);
  for (std::size_t position = 0; position < tensors.size(); ++position) {
    const tensor_summary& tensor = tensors[position];
    if (!is_selected(rules, tensor)) continue;
    const bool asked_for = rules.everything || rules.embeddings || matches_any(rules.include, tensor.name);
    if (!asked_for && detail::is_output_head(tensor, embeddings)) continue;
    std::string name(tensor.name);
    try {
      const bool matched = !rules.block_pattern.empty() && name.size() <= longest_matched_name;
      name = matched ? detail::first_match(pattern, tensor.name, steps) : std::string_view();
    } catch (const std::regex_error& failure) {
      const bool too_long = failure.code() == std::regex_constants::error_complexity;
      return error(errc::invalid_argument, "block pattern '", rules.block_pattern, "' on tensor '", name, "': ",
                   too_long ? "takes too long; avoid quantifiers within quantifiers, as in (a+)+" : failure.what());
    }
    if (name.empty()) {
      if (room == 0) {
        ++shared_blocks;
        room = shared_block_weights;
      }
      std::uint64_t weights = 1;
      for (const std::uint64_t extent : tensor.shape) weights = extent > room / weights ? room : weights * extent;
      room -= weights;
      name = detail::text_of("tensors.", shared_blocks - 1);
    }
    const auto [entry, added] = index_of.try_emplace(name, blocks.size());
    if (added) blocks.push_back({name, {}});
    blocks[entry->second].tensors.push_back(position);
  }
  return blocks;
}

}  // namespace ecq
