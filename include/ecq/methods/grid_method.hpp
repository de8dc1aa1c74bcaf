#pragma once
/// \file
/// Compression method of an affine quantiser, EntroLLM's (section III) or a user's: a grid for every matrix and, if
/// many streams follow, one code for all of them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/format/affine_uint.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/methods/joint_code.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/quantizer.hpp"
#include "ecq/stream/chunk_index.hpp"

namespace ecq::detail {

template <class Format, class Quantizer>
class prepared_grids final : public prepared_method {
 public:
  prepared_grids(const Quantizer& quantizer, std::vector<affine_grid> grids, const std::optional<joint_code>& joint)
      : quantizer_(quantizer), grids_(std::move(grids)), joint_(joint) {}

  void describe(std::size_t, const weights_view& weights, packed_matrix& described) const override {
    described.template set_format<Format>();
    described.layout = quantizer_.layout(weights.rows(), weights.columns());
  }

  result<void> encode(const cpu& backend, std::size_t index, const weights_view& weights, const rate_correction&,
                      packed_matrix& described, std::span<std::byte> elements) const override {
    ECQ_CHECK(check_layout(weights, described.layout, described.scales.size()));
    described.zero = grids_[index].zero;
    std::fill(described.scales.begin(), described.scales.end(), grids_[index].scale);
    return quantizer_.template encode<Format>(
        backend, weights, grids_[index], std::span(reinterpret_cast<std::uint8_t*>(elements.data()), elements.size()));
  }

  stream_options options(const stream_options& given) const override {
    stream_options made = given;
    if (joint_) made.shared_counts = &joint_->counts;
    return made;
  }

  std::optional<coder_id> coder() const override { return joint_ ? joint_->coder : std::nullopt; }

 private:
  Quantizer quantizer_;
  std::vector<affine_grid> grids_;
  std::optional<joint_code> joint_;
};

template <class Format, class Quantizer>
class grid_method final : public compression_method {
 public:
  explicit grid_method(const Quantizer& quantizer) : quantizer_(quantizer) {}

  std::string settings() const override {
    return text_of(std::string_view(Format::name), ", ", std::string_view(Quantizer::name));
  }
  stream_sharing sharing() const override { return stream_sharing::matrix; }
  std::string_view stage() const override { return "counting codes"; }

  /// Finds and keeps the grids; with one code for all streams, also makes and counts the codes. Takes memory for the
  /// codes of the largest matrix.
  result<std::unique_ptr<const prepared_method>> prepare(const cpu& backend, matrix_streams streams,
                                                         const method_setting& setting) const override {
    std::vector<affine_grid> grids;
    joint_code joint;
    std::uint64_t chunks = 0;
    std::vector<std::uint8_t> codes;
    const auto look_at = [&](const weights_view& weights) -> result<void> {
      ECQ_TRY(grid, quantizer_.template fit<Format>(backend, weights));
      grids.push_back(grid);
      if (!setting.one_code) return {};
      codes.resize(weights.size());
      ECQ_CHECK(quantizer_.template encode<Format>(backend, weights, grid, codes));
      ECQ_TRY(counts, count_codes(backend, codes));
      joint.counts += counts;
      chunks += chunks_of(codes.size(), setting.chunk_bits_of(codes.size()));
      return {};
    };
    for (const auto& stream : streams) {
      for (const named_weights& matrix : stream) {
        const std::size_t index = grids.size();
        if (setting.begin) ECQ_CHECK(setting.begin(index));
        if (auto seen = look_at(matrix.weights); !seen) {
          return std::move(seen).error().within(label_of(matrix, index));
        }
        if (setting.finished) setting.finished(index);
      }
    }
    if (setting.choose_coder) joint.coder = expected_smallest(joint.counts, chunks, streams.size());
    return std::unique_ptr<const prepared_method>(std::make_unique<const prepared_grids<Format, Quantizer>>(
        quantizer_, std::move(grids), setting.one_code ? std::optional(joint) : std::nullopt));
  }

 private:
  Quantizer quantizer_;
};

}  // namespace ecq::detail
