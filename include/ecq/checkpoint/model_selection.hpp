#pragma once
/// \file
/// What becomes of each tensor of a checkpoint: compressed in which stream, applied to others, or kept.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/compress_options.hpp"
#include "ecq/checkpoint/quantized_tensors.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/methods/method.hpp"

namespace ecq::detail {

/// The tensors that share a stream.
struct selected_block {
  std::string name;
  std::vector<named_weights> matrices{};
  std::vector<const tensor_entry*> entries{};
  bool falls_back = false;  ///< compressed by compress_options::fallback
  std::size_t first = 0;    ///< number of the first one among the tensors of the same method
  std::size_t shard = 0;    ///< the file of the model that holds them, if every file gets streams of its own

  void add(const tensor_entry& tensor, const named_weights& matrix) {
    matrices.push_back(matrix);
    entries.push_back(&tensor);
  }
};

/// The tensors of a checkpoint, by what becomes of them.
class model_selection {
 public:
  /// Chooses by the rules of `options`; `method` and `fallback` are those of the options. With `part`, no stream
  /// holds tensors of several files, and nothing is chosen or kept of files that are not in the part. Errors:
  /// invalid_argument (no tensor selected, a wrong pattern), unsupported (quantized_tensors::weights_of), and those of
  /// reading weights.
  static result<model_selection> of(const cpu& backend, const checkpoint& model, const compress_options& options,
                                    const compression_method& method, const compression_method& fallback,
                                    const std::optional<folder_part>& part);

  /// The blocks to compress, in the order of their first tensors.
  const std::vector<selected_block>& blocks() const noexcept { return blocks_; }
  /// The tensors that stay as they are, in the model's order.
  const std::vector<const tensor_entry*>& kept() const noexcept { return kept_; }
  /// The size of all tensors of the blocks, in bytes.
  std::uint64_t selected_bytes() const noexcept { return selected_bytes_; }
  /// The number of tensors that were quantised already; their scales are neither compressed nor kept.
  std::size_t unpacked() const noexcept { return scales_.size(); }
  /// Whether the tensor holds scales by which selected weights are multiplied.
  bool is_applied(const tensor_entry& tensor) const { return scales_.contains(&tensor); }
  /// The number of kept tensors that belong to quantised weights.
  std::size_t of_quantized() const noexcept { return of_quantized_; }

 private:
  model_selection(const checkpoint& model, bool lossless) : model_(&model) {
    if (!lossless) quantized_ = quantized_tensors::find(model);
  }

  std::vector<tensor_summary> summaries() const;
  result<named_weights> matrix_of(std::size_t position) const;
  result<bool> is_left_out(const cpu& backend, const tensor_entry& tensor, const named_weights& matrix,
                           const compress_options& options) const;
  void list_kept(const std::optional<folder_part>& only);
  error nothing_selected() const;

  const checkpoint* model_;
  std::optional<quantized_tensors> quantized_;  ///< unless the method is lossless: it keeps everything
  std::vector<selected_block> blocks_;
  std::vector<const tensor_entry*> kept_;
  std::set<const tensor_entry*> selected_;
  std::set<const tensor_entry*> scales_;  ///< of selected weights, which are multiplied by them
  std::uint64_t selected_bytes_ = 0;
  std::size_t of_quantized_ = 0;
};

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/model_selection-inl.hpp"
#endif
