#pragma once
/// \file
/// Decodes a container into a plain safetensors file.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/format/dtype.hpp"

namespace ecq {

/// Options for decompress_checkpoint().
struct decompress_options {
  /// Type of all compressed tensors: bf16, fp16 or fp32. Without a value, each tensor gets its original type if that is
  /// one of these or the tensor is lossless, otherwise bf16.
  std::optional<dtype> type{};
};

/// Result of decompress_checkpoint().
struct decompress_report {
  std::uint64_t weights = 0;  ///< number of decoded weights
  std::uint64_t output_bytes = 0;
  std::size_t tensors = 0;  ///< number of decoded tensors
  std::size_t passed_through = 0;
  /// Whether the file begins like the original: same tensors, types and order, metadata, white space.
  bool same_header = false;
};

/// Decodes the container `in` into the safetensors file `out`, with the original's metadata and order of tensors.
/// Tensors that were not compressed come back bit for bit. A file that was compressed without loss comes back byte for
/// byte, header included. Checks every checksum on the way. Nothing appears under the name `out` unless everything goes
/// well. Errors are those of reading and writing, and invalid_argument if `out` is `in`, by whatever name. Memory: a
/// few MiB per thread.
result<decompress_report> decompress_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                                const std::filesystem::path& out,
                                                const decompress_options& options = {},
                                                const progress_callback& report_progress = {});

/// Decodes the model in the folder `in`, whose files of weights are all containers, into the folder `out`. Each
/// container comes back under its name, as decompress_checkpoint writes it. All other files are copied, except hidden
/// ones; config.json loses its mark (without_mark). Files appear once all are complete; all are open until then.
/// Errors: those of decompress_checkpoint; corrupt if the index lists other tensors than the containers have; also
/// invalid_argument if one folder lies in the other, and if `out` holds weights that are no earlier result: weights
/// that are compressed, belong to tensors that the container of that name lacks, differ from those to be written (the
/// first ones of each block are compared), or cannot be read.
result<decompress_report> decompress_folder(const cpu& backend, const std::filesystem::path& in,
                                            const std::filesystem::path& out, const decompress_options& options = {},
                                            const progress_callback& report_progress = {});

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/decompress_checkpoint-inl.hpp"
#endif
