#pragma once
/// \file
/// Decodes tensors of many blocks side by side and writes them in order.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "ecq/io/safetensors_writer.hpp"

namespace ecq::detail {

/// Number of weights decoded at a time: enough for all threads, little compared with a model.
inline constexpr std::size_t weights_per_piece = std::size_t{1} << 22;

/// Calls `visitor.template operator()<Element>()` with the element type to which weights of `type` are decoded.
template <class Visitor>
decltype(auto) visit_output(dtype type, Visitor&& visitor) {
  switch (type) {
    case dtype::fp32: return visitor.template operator()<float>();
    case dtype::fp16: return visitor.template operator()<fp16>();
    default: return visitor.template operator()<bf16>();
  }
}

/// Returns the bytes of decoded elements of `width` bytes each in the byte order of files, in `scratch` if they have to
/// be swapped.
std::span<const std::byte> little_endian_bytes(std::span<const std::byte> elements, std::size_t width,
                                               std::vector<std::byte>& scratch);

/// A block of a container, opened for decoding; the destructor gives its memory back.
class open_block {
 public:
  /// Opens block `index` of a container. Errors name the block.
  static result<std::shared_ptr<const open_block>> open(const container_reader& container, std::size_t index);

  open_block(const container_reader& container, mapped_block block) : container_(container), block_(std::move(block)) {}
  open_block(const open_block&) = delete;
  open_block& operator=(const open_block&) = delete;
  ~open_block() { container_.release(block_); }

  const block_decoder& decoder() const noexcept { return *decoder_; }

 private:
  const container_reader& container_;
  mapped_block block_;
  std::optional<block_decoder> decoder_;
};

/// A queue that takes tensors in the order in which they are to be written, decodes about `piece_weights` weights at a
/// time, from any number of tensors and streams (block_decoder::decode), and writes them.
class segment_queue {
 public:
  segment_queue(const cpu& backend, safetensors_writer& writer, std::size_t piece_weights = weights_per_piece)
      : backend_(backend), writer_(writer), piece_weights_(piece_weights) {}

  /// Queues matrix `index` of `block`, as weights of `type`. Keeps the block open until they are written.
  result<void> add(const std::shared_ptr<const open_block>& block, std::size_t index, dtype type);

  /// Decodes and writes everything in the queue. Call it before anything else is written, and at the end. Errors name
  /// the matrix.
  result<void> flush();

 private:
  struct piece {
    std::shared_ptr<const open_block> block;
    std::size_t matrix = 0;
    std::size_t first_row = 0;
    std::size_t rows = 0;
  };

  template <weight_output Element>
  result<void> decode_and_write();

  cpu backend_;
  safetensors_writer& writer_;
  std::size_t piece_weights_;
  std::vector<piece> pieces_;  ///< all of one type
  std::size_t waiting_ = 0;    ///< number of weights of all pieces
  dtype type_ = dtype::bf16;
  std::vector<std::byte> weights_;  ///< kept for its memory, as is scratch_
  std::vector<std::byte> scratch_;
};

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/segment_queue-inl.hpp"
#endif
