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

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/compress_checkpoint-inl.hpp"
#endif
