#pragma once
/// \file
/// What a container, or a plain checkpoint, holds.

#include <filesystem>
#include <string>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/checkpoint/report.hpp"
#include "ecq/io/safetensors.hpp"

namespace ecq {

/// A checkpoint's tensors, compressed ones first, with their statistics; of a container also what wrote it.
struct inspect_report : checkpoint_report {
  bool container = false;
  std::string tool;      ///< as written by the tool that compressed
  std::string settings;  ///< likewise
  string_map metadata;   ///< of the original
};

/// Decodes all codes of a container and counts them; of a plain checkpoint only the header is read. Errors are those of
/// opening and decoding, naming file, block and matrix.
result<inspect_report> inspect_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                          const progress_callback& report_progress = {});

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/inspect_checkpoint-inl.hpp"
#endif
