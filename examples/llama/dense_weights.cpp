// Converts stored tensors to BF16 or FP32: plain tensors element by element, coded tensors by the blocks that hold
// them.

#include "dense_weights.hpp"

#include <bit>
#include <cmath>
#include <span>
#include <type_traits>

#include "ecq/base/backend.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/checkpoint/segment_queue.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/nearest_finite.hpp"
#include "stored_tensors.hpp"

namespace llama {

namespace {

/// Whether the data of a tensor can be used as BF16 weights where they lie in the mapped file.
bool usable_in_place(const stored_tensor& tensor) noexcept {
  return !tensor.coded() && tensor.type == ecq::dtype::bf16 && std::endian::native == std::endian::little &&
         reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % alignof(ecq::bf16) == 0;
}

/// Returns the weights of a tensor in its mapped file. Precondition: usable_in_place().
ecq::matrix_view<const ecq::bf16> in_place(const stored_tensor& tensor) noexcept {
  const extents size = extents_of(tensor);
  return {reinterpret_cast<const ecq::bf16*>(tensor.bytes.data()), size.rows, size.columns};
}

/// Checks the data of a plain tensor against the checksum in its container; plain files have no checksums.
ecq::result<void> check_data(const stored_tensor& tensor) {
  if (tensor.container == nullptr || tensor.coded()) return {};
  return tensor.container->read(*tensor.entry, [](std::span<const std::byte>) { return ecq::result<void>(); });
}

/// Returns a weight as `Element`, rounded as decoding rounds it.
template <class Element>
Element rounded(float weight) noexcept {
  return std::isfinite(weight) ? ecq::nearest_finite<Element>(weight) : Element(weight);
}

/// Copies a plain tensor's elements from `Format` to `Element`.
template <class Element, class Format>
void copy_elements(std::span<const std::byte> bytes, Element* out) noexcept {
  using code_type = typename Format::code_type;
  for (std::size_t at = 0; at + sizeof(code_type) <= bytes.size(); at += sizeof(code_type)) {
    const code_type code = ecq::load_le<code_type>(bytes.data() + at);
    if constexpr (std::is_same_v<Format, Element>) {
      *out++ = Element::from_bits(code);
    } else {
      *out++ = rounded<Element>(Format::decode(code));
    }
  }
}

}  // namespace

extents extents_of(const stored_tensor& tensor) noexcept {
  return {tensor.shape[0], tensor.shape.size() > 1 ? tensor.shape[1] : 1};
}

template <class Element>
ecq::result<void> tensor_decoder<Element>::add(const stored_tensor& tensor, std::size_t place) {
  if (!tensor.coded()) {
    ECQ_CHECK(check_data(tensor));
    plain_.push_back({&tensor, place});
    return {};
  }
  auto& block = blocks_[{tensor.container, tensor.block}];
  if (block == nullptr) {
    ECQ_TRY(opened, ecq::detail::open_block::open(*tensor.container, tensor.block));
    block = std::move(opened);
    coded_bytes_ += block->decoder().stream().bytes().size();
  }
  coded_bytes_ += block->decoder().matrices()[tensor.matrix].side_bytes();
  coded_.push_back({&block->decoder(), tensor.matrix, place});
  return {};
}

template <class Element>
ecq::result<void> tensor_decoder<Element>::decode(const ecq::cpu& backend, Element* out) const {
  for (const auto& [tensor, place] : plain_) {
    ecq::visit_format(*tensor->type, [&, from = tensor, to = out + place]<class Format>() {
      copy_elements<Element, Format>(from->bytes, to);
    });
  }
  std::vector<typename ecq::block_decoder::segment<Element>> segments;
  for (const auto& [decoder, matrix, place] : coded_) {
    const auto& layout = decoder->matrices()[matrix].layout;
    segments.push_back({decoder, matrix, 0, {out + place, layout.rows, layout.columns}});
  }
  if (segments.empty()) return {};
  return ecq::block_decoder::decode<Element>(backend, segments);
}

template class tensor_decoder<ecq::bf16>;
template class tensor_decoder<float>;

ecq::result<bf16_matrix> bf16_matrix::load(const ecq::cpu& backend, const stored_tensor& tensor) {
  bf16_matrix matrix;
  if (usable_in_place(tensor)) {
    ECQ_CHECK(check_data(tensor));
    matrix.view_ = in_place(tensor);
    return matrix;
  }
  const extents size = extents_of(tensor);
  tensor_decoder<ecq::bf16> decoder;
  ECQ_CHECK(decoder.add(tensor, 0));
  matrix.own_.resize(size.size());
  ECQ_CHECK(decoder.decode(backend, matrix.own_.data()));
  matrix.view_ = {matrix.own_.data(), size.rows, size.columns};
  return matrix;
}

ecq::result<std::vector<float>> load_floats(const ecq::cpu& backend, const stored_tensor& tensor) {
  tensor_decoder<float> decoder;
  ECQ_CHECK(decoder.add(tensor, 0));
  std::vector<float> values(extents_of(tensor).size());
  ECQ_CHECK(decoder.decode(backend, values.data()));
  return values;
}

}  // namespace llama
