#pragma once
/// \file
/// Compresses a whole checkpoint into a container, block by block, so that memory does not grow with the model.

#include <filesystem>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/compress_options.hpp"
#include "ecq/checkpoint/progress.hpp"

namespace ecq {

/// Compresses `in` (a file, an index of shards or a folder: checkpoint::open) into the container `out`. Nothing appears
/// under that name unless everything goes well. Errors name file, tensor and place; they are those of reading and
/// writing, invalid_argument (options; no tensor selected; `in` is a container already; `out` is one of the files of
/// `in`, by whatever name), non_finite, unreachable_target.
///
/// Memory: about twice the codes of the largest block (with EntroLLM: tensor), one byte per weight.
result<compress_report> compress_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                            const std::filesystem::path& out, const compress_options& options,
                                            const progress_callback& report_progress = {});

/// Compresses the model in the folder `in` into the folder `out`: each of its files becomes a container of the same
/// name, and all other files are copied, except hidden ones. `in` is a folder or an index. All files share one lambda,
/// and a target of bits holds for all of them together. Files appear once all are complete; all are open until then.
/// Memory and errors are those of compress_checkpoint; also invalid_argument if one folder lies in the other, and if
/// `out` holds weights that are no earlier result: weights that are not compressed, belong to tensors that the model
/// lacks, or cannot be read.
///
/// Scales by which weights were multiplied are not in the index that is written, and config.json no longer describes
/// them: its `quantization_config` names ecq instead (marked_as_compressed).
result<compress_report> compress_folder(const cpu& backend, const std::filesystem::path& in,
                                        const std::filesystem::path& out, const compress_options& options,
                                        const progress_callback& report_progress = {});

/// Returns the lambda with which compress_checkpoint and compress_folder begin for a target of bits. It is found in a
/// sample of rows, and they correct it if the result misses the target. Returns 0 without a target or a lambda. Errors:
/// those of compress_checkpoint.
result<double> find_lambda_of(const cpu& backend, const std::filesystem::path& in, const compress_options& options,
                              const progress_callback& report_progress = {});

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/compress_checkpoint-inl.hpp"
#endif
