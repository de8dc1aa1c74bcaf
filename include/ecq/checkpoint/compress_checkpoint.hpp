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
/// name, and all other files are copied, except hidden ones. `in` is a folder or an index. One lambda serves all files,
/// and a target holds for all of them together. Files appear when all are whole, and all are open until then; memory
/// and errors are those of compress_checkpoint, and invalid_argument for folders one of which lies in the other, and
/// for an `out` that holds weights which are no earlier result: not compressed, of tensors that the model lacks, or not
/// readable.
///
/// Scales that weights were multiplied by are gone from the index that is written, and what config.json says of them as
/// `quantization_config`. That names ecq instead (marked_as_compressed).
result<compress_report> compress_folder(const cpu& backend, const std::filesystem::path& in,
                                        const std::filesystem::path& out, const compress_options& options,
                                        const progress_callback& report_progress = {});

/// The lambda at which compress_checkpoint and compress_folder begin for a target of bits: it is found in a sample of
/// rows. They correct it if the result misses the target. 0 without a target or a lambda. Errors: those of
/// compress_checkpoint.
result<double> find_lambda_of(const cpu& backend, const std::filesystem::path& in, const compress_options& options,
                              const progress_callback& report_progress = {});

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/compress_checkpoint-inl.hpp"
#endif
