#pragma once
/// \file
/// The use of each tensor of a checkpoint: it is compressed in a stream, applied to other tensors, or kept.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/compress_options.hpp"
#include "ecq/checkpoint/file_plan.hpp"
#include "ecq/checkpoint/quantized_tensors.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/methods/method.hpp"

namespace ecq::detail {

/// The tensors that share a stream.
struct selected_block {
  std::string name;
  std::vector<named_weights> matrices{};
  std::vector<const tensor_entry*> entries{};
  bool falls_back = false;  ///< compressed by compress_options::fallback
  std::size_t first = 0;    ///< number of its first tensor among all those of the same method
  std::size_t file = 0;     ///< the number of the file, in the plan, that will hold the stream

  /// Returns the size of the tensors before compression.
  std::uint64_t size_bytes() const {
    std::uint64_t bytes = 0;
    for (const tensor_entry* tensor : entries) bytes += tensor->size_bytes();
    return bytes;
  }

  void add(const tensor_entry& tensor, const named_weights& matrix) {
    matrices.push_back(matrix);
    entries.push_back(&tensor);
  }
};

/// The tensors of a checkpoint, divided into those to compress, to apply to others, and to keep.
class model_selection {
 public:
  /// Selects tensors by the rules of `options`; `method` and `fallback` are those of the options. `files` are the files
  /// of the model if the result is a folder again; then no stream holds tensors of several files. If `files` is null,
  /// the result is one file. Errors: invalid_argument (no tensor selected, a wrong pattern, an exact weight outside its
  /// tensor, sensitivities that are out of range, or neither one for the tensor nor one for each row), not_found (exact
  /// weights or a sensitivity of a tensor that does not exist, or no sensitivity of a selected tensor), unsupported
  /// (quantized_tensors::weights_of), limit_exceeded (more than file_limits::shards files), and those of reading
  /// weights.
  static result<model_selection> of(const cpu& backend, const checkpoint& model, const compress_options& options,
                                    const compression_method& method, const compression_method& fallback,
                                    const model_files* files);

  /// Returns the files to write, with all tensors, even those that is_applied() drops.
  const file_plan& files() const noexcept { return *files_; }

  /// Returns the blocks to compress, in the order of their first tensors.
  const std::vector<selected_block>& blocks() const noexcept { return blocks_; }
  /// Returns the tensors that stay as they are, in the model's order.
  const std::vector<const tensor_entry*>& kept() const noexcept { return kept_; }
  /// Whether any weights were already quantised; their scales are neither compressed nor kept.
  bool has_unpacked() const noexcept { return !scales_.empty(); }
  /// Whether the tensor holds scales by which selected weights are multiplied.
  bool is_applied(const tensor_entry& tensor) const { return scales_.contains(&tensor); }
  /// Whether the tensor, which was not selected, holds quantised weights that have scales.
  bool is_left_quantized(const tensor_entry& tensor) const {
    return quantized_ && (*quantized_)[position_of(tensor)].scale != nullptr;
  }
  /// Whether the tensor stays as it is because it belongs to quantised weights.
  bool is_of_quantized(const tensor_entry& tensor) const {
    return quantized_ && (*quantized_)[position_of(tensor)].belongs;
  }
  /// Whether the tensor stays as it is because of NaN or infinity.
  bool is_non_finite(const tensor_entry& tensor) const { return non_finite_.contains(&tensor); }
  /// Returns the number of the file that will hold the tensor.
  std::size_t file_of(const tensor_entry& tensor) const { return files_->file_of(position_of(tensor)); }

 private:
  explicit model_selection(const checkpoint& model) : model_(&model), as_bytes_(model.tensors().size()) {}

  result<void> find_what_is_coded_as_bytes(const cpu& backend, const compress_options& options);
  std::vector<tensor_summary> summaries() const;
  result<named_weights> matrix_of(std::size_t position) const;
  /// Returns the matrix with the weights that `choice` keeps exact.
  result<named_weights> with_exact(const cpu& backend, const tensor_entry& tensor, const named_weights& matrix,
                                   const exact_choice& choice);
  /// Sets the factors of lambda that follow from the sensitivities of tensors and rows.
  result<void> divide_bits(const sensitivity_map& sensitivities);
  result<bool> is_left_out(const cpu& backend, const tensor_entry& tensor, const named_weights& matrix,
                           const compress_options& options) const;
  file_plan plan_files(const compress_options& options, const model_files* files) const;
  void list_kept();
  error nothing_selected() const;

  std::size_t position_of(const tensor_entry& tensor) const noexcept {
    return static_cast<std::size_t>(&tensor - model_->tensors().data());
  }

  const checkpoint* model_;
  std::optional<quantized_tensors> quantized_;  ///< empty if the method is lossless, which keeps everything
  std::vector<bool> as_bytes_;                  ///< for each tensor, whether a lossless method codes its bytes
  std::vector<selected_block> blocks_;
  std::vector<const tensor_entry*> kept_;
  std::set<const tensor_entry*> selected_;
  std::set<const tensor_entry*> non_finite_;
  std::set<const tensor_entry*> scales_;  ///< scales of selected weights, which are multiplied by them
  std::map<const tensor_entry*, std::vector<std::uint64_t>> exact_;  ///< positions to which the matrices' weights refer
  std::map<const tensor_entry*, std::vector<double>> row_factors_;   ///< factors to which the matrices refer
  std::optional<file_plan> files_;
};

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/model_selection-inl.hpp"
#endif
