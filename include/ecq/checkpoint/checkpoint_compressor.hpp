#pragma once
/// \file
/// One run of the compression of a checkpoint, step by step.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/compress_options.hpp"
#include "ecq/checkpoint/model_selection.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/container/writer.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/quantize/rate_correction.hpp"

namespace ecq::detail {

/// The tensors that one method compresses.
struct method_share {
  const compression_method* method;
  std::vector<const selected_block*> blocks{};
  std::unique_ptr<const prepared_method> prepared{};
};

/// One run of compress_checkpoint or compress_folder: select, prepare, write, commit.
class checkpoint_compressor {
 public:
  checkpoint_compressor(const cpu& backend, const checkpoint& model, const compress_options& options,
                        const progress_callback& report_progress)
      : backend_(backend), model_(model), options_(options), report_progress_(report_progress) {}

  /// Chooses the tensors to compress and the files to write. `files` are those of the model if the result is a folder
  /// again; null if it is one file.
  result<void> select(const compression_method& method, const compression_method& fallback, const model_files* files);

  const model_selection& selection() const { return *selection_; }
  /// Returns the names of the files of the part.
  std::vector<std::filesystem::path> outputs() const;

  /// Prepares the methods for the whole model; all parts do the same.
  result<void> prepare();

  double lambda() const { return shares_[0].prepared == nullptr ? 0 : shares_[0].prepared->lambda(rate_correction(0)); }

  /// Compresses until the rate is met. `outs` are the paths of outputs(); nothing appears there before commit().
  result<void> write(std::span<const std::filesystem::path> outs);

  /// Gives all files their names and returns the report.
  result<compress_report> commit();

 private:
  result<void> prepare(method_share& share);
  container_plan plan(std::size_t file) const;
  result<part_size> write_all(std::span<const std::filesystem::path> outs, const rate_correction& correction);
  result<part_size> write_blocks(const rate_correction& correction);
  result<part_size> write_block(const selected_block& block, const rate_correction& correction, histogram& all);
  result<void> pass_through(bool wide);

  bool is_of_part(std::size_t file) const { return writer_of_[file] != no_writer; }
  container_writer& writer_of(std::size_t file) { return writers_[writer_of_[file]]; }
  method_share& share_of(const selected_block& block) { return shares_[block.falls_back ? 1 : 0]; }
  const method_share& share_of(const selected_block& block) const { return shares_[block.falls_back ? 1 : 0]; }

  result<void> advance(std::string_view stage, std::string_view current, std::uint64_t done,
                       std::uint64_t total) const {
    if (!report_progress_ || report_progress_({stage, current, done, total})) return {};
    return error(errc::invalid_argument, "interrupted");
  }

  static constexpr std::size_t no_writer = static_cast<std::size_t>(-1);

  cpu backend_;
  const checkpoint& model_;
  const compress_options& options_;
  const progress_callback& report_progress_;
  std::optional<const model_selection> selection_;
  std::vector<std::size_t> files_;                      ///< files of the part, by their numbers in the plan
  std::vector<std::size_t> writer_of_;                  ///< index of the writer of each file of the plan, or no_writer
  std::vector<std::vector<std::byte>> made_headers_{};  ///< headers of the plan's files, unless these are the model's
  std::uint64_t part_bytes_ = 0;                        ///< size of the tensors that the part compresses
  method_share shares_[2] = {};                         ///< tensors of the method and of its fallback
  std::vector<container_writer> writers_;
  compress_report report_;
  int attempt_ = 0;
};

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/checkpoint_compressor-inl.hpp"
#endif
