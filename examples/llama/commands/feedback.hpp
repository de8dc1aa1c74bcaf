#pragma once
/// \file
/// A model and the texts that it has written itself, with which error feedback compresses it at any rate.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "../model.hpp"
#include "../thread_pool.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/compress_options.hpp"
#include "ecq/checkpoint/sensitivities.hpp"
#include "feedback_options.hpp"

namespace llama {
class text_calibration;
}

namespace llama_tool {

/// Fails with ecq::errc::invalid_argument if the model at `path` is compressed already.
ecq::result<void> check_plain(const std::string& path);

/// Reads the sensitivities in a file; returns none if `file` is empty.
ecq::result<ecq::sensitivity_map> sensitivities_of(const std::string& file);

class feedback {
 public:
  /// Opens the model and lets it write its texts; shows its progress.
  static ecq::result<std::unique_ptr<feedback>> open(const feedback_options& given);

  /// Compresses the model to the folder `output` at `bits` a weight, on a trellis of `states` states, 4, 8, 16 or 32,
  /// or without one (0). Shows its progress.
  ecq::result<ecq::compress_report> compress(const std::string& output, double bits, unsigned states);

  /// Number of tokens of all texts.
  std::size_t tokens() const noexcept { return tokens_; }

 private:
  feedback(const feedback_options& given, llama::model model) : given_(given), model_(std::move(model)) {}

  feedback_options given_;
  llama::model model_;
  llama::thread_pool pool_{given_.common.threads};
  ecq::sensitivity_map sensitivities_;
  std::shared_ptr<llama::text_calibration> pass_;
  std::size_t tokens_ = 0;
};

}  // namespace llama_tool
