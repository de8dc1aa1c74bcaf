#pragma once
/// \file
/// Inspection of the contents of a container or a plain checkpoint.

#include <filesystem>
#include <string>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/checkpoint/report.hpp"
#include "ecq/io/safetensors.hpp"

namespace ecq {

/// Tensors of a checkpoint, compressed ones first, with their statistics; for a container, also the tool that wrote it.
struct inspect_report : checkpoint_report {
  bool container = false;
  std::string tool;      ///< the compressing tool, as it named itself
  std::string settings;  ///< that tool's settings, as it wrote them
  string_map metadata;   ///< metadata of the original
};

/// Decodes all codes of a container and counts them; reads only the header of a plain checkpoint. Errors are those of
/// opening and decoding, and name file, block and matrix.
result<inspect_report> inspect_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                          const progress_callback& report_progress = {});

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/inspect_checkpoint-inl.hpp"
#endif
