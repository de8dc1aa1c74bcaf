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

/// How decompress_checkpoint writes weights.
struct decompress_options {
  /// bf16, fp16 or fp32 for all compressed tensors. Nothing: the type that each tensor had, if it is one of these or
  /// the tensor is lossless; otherwise bf16.
  std::optional<dtype> type{};
};

/// What decompress_checkpoint did.
struct decompress_report {
  std::uint64_t weights = 0;  ///< decoded
  std::uint64_t output_bytes = 0;
  std::size_t tensors = 0;  ///< decoded
  std::size_t passed_through = 0;
  bool same_header =
      false;  ///< the file begins like the original: same tensors, types and order, metadata, white space
};

/// Decodes the container `in` into the safetensors file `out`, with the original's metadata and, bit for bit, its
/// tensors that were not compressed, in the original's order. A file that was compressed without loss comes back byte
/// for byte, header included. Checks every checksum on the way; nothing appears under the name `out` unless all goes
/// well. Errors are those of reading and writing, and invalid_argument if `out` is `in`, by whatever name. Memory: a
/// few MiB per thread.
result<decompress_report> decompress_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                                const std::filesystem::path& out,
                                                const decompress_options& options = {},
                                                const progress_callback& report_progress = {});

/// Decodes the model in the folder `in`, all of whose files are containers, into the folder `out`: each comes back
/// under its name, as decompress_checkpoint makes it, and all other files are copied, except hidden ones; config.json
/// loses its mark (without_mark). Files appear when all are whole, and all are open until then. Errors: those of
/// decompress_checkpoint, and invalid_argument for folders one of which lies in the other, and for an `out` that holds
/// weights which are no earlier result: compressed, of tensors that the container of that name lacks, other than those
/// to be written, of which the first of each block are compared, or not readable.
result<decompress_report> decompress_folder(const cpu& backend, const std::filesystem::path& in,
                                            const std::filesystem::path& out, const decompress_options& options = {},
                                            const progress_callback& report_progress = {});

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/decompress_checkpoint-inl.hpp"
#endif
