#pragma once
/// \file
/// Definition of the queue of tensors to decode.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/segment_queue.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"

namespace ecq::detail {

ECQ_INLINE std::span<const std::byte> little_endian_bytes(std::span<const std::byte> elements, std::size_t width,
                                                          std::vector<std::byte>& scratch) {
  if constexpr (std::endian::native == std::endian::little) return elements;
  scratch.resize(elements.size());
  for (std::size_t at = 0; at < elements.size(); at += width) {
    std::reverse_copy(elements.data() + at, elements.data() + at + width, scratch.data() + at);
  }
  return scratch;
}

ECQ_INLINE result<std::shared_ptr<const open_block>> open_block::open(const container_reader& container,
                                                                      std::size_t index) {
  ECQ_TRY(block, container.load(index));
  auto opened = std::make_shared<open_block>(container, std::move(block));
  auto decoder = block_decoder::open(opened->block_);
  if (!decoder) return std::move(decoder).error().within("block '", container.blocks()[index].name, "'");
  opened->decoder_.emplace(std::move(*decoder));
  return std::shared_ptr<const open_block>(std::move(opened));
}

ECQ_INLINE result<void> segment_queue::add(const std::shared_ptr<const open_block>& block, std::size_t index,
                                           dtype type) {
  const packed_matrix& matrix = block->decoder().matrices()[index];
  const auto [rows, columns, ignored_rows, ignored_columns] = matrix.layout;
  if (rows == 0 || columns == 0) {
    ECQ_CHECK(flush());
    ECQ_CHECK(writer_.begin(matrix.name));
    return writer_.end();
  }
  const std::size_t step = (std::max)(std::size_t{1}, piece_weights_ / columns);
  for (std::size_t row = 0; row < rows; row += step) {
    const std::size_t count = (std::min)(step, rows - row);
    if (!pieces_.empty() && (type != type_ || waiting_ + count * columns > piece_weights_)) ECQ_CHECK(flush());
    pieces_.push_back({block, index, row, count});
    waiting_ += count * columns;
    type_ = type;
  }
  return {};
}

ECQ_INLINE result<void> segment_queue::flush() {
  if (pieces_.empty()) return {};
  return visit_output(type_, [&]<class Element>() { return decode_and_write<Element>(); });
}

template <weight_output Element>
result<void> segment_queue::decode_and_write() {
  weights_.resize(waiting_ * sizeof(Element));
  std::vector<block_decoder::segment<Element>> segments;
  auto* next = reinterpret_cast<Element*>(weights_.data());
  for (const piece& each : pieces_) {
    const block_decoder& decoder = each.block->decoder();
    const std::size_t columns = decoder.matrices()[each.matrix].layout.columns;
    segments.push_back({&decoder, each.matrix, each.first_row, matrix_view<Element>(next, each.rows, columns)});
    next += each.rows * columns;
  }
  ECQ_CHECK(block_decoder::decode(backend_, std::span<const block_decoder::segment<Element>>(segments)));
  for (const auto& [decoder, index, first_row, out] : segments) {
    const packed_matrix& matrix = decoder->matrices()[index];
    if (first_row == 0) ECQ_CHECK(writer_.begin(matrix.name));
    const std::span<const Element> values(out.data(), out.rows() * out.columns());
    ECQ_CHECK(writer_.append(little_endian_bytes(std::as_bytes(values), sizeof(Element), scratch_)));
    if (first_row + out.rows() == matrix.layout.rows) ECQ_CHECK(writer_.end());
  }
  pieces_.clear();
  waiting_ = 0;
  return {};
}

}  // namespace ecq::detail
