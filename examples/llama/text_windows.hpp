#pragma once
/// \file
/// The windows of a text, and the predictions that models make of their tokens.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "kv_cache.hpp"

namespace llama {

class forward_pass;
struct model_config;

/// Division of a text into windows of `window` + 1 tokens, one after another. All tokens of a window but the first are
/// predicted from those before them in the window.
struct window_options {
  std::size_t window = 256;
  std::size_t windows = 0;  ///< at most; 0: as many as the text has
};

/// Reads tokens from a file of little-endian 16-bit numbers. Errors name the file: ecq::errc::truncated for an odd
/// number of bytes.
ecq::result<std::vector<std::uint32_t>> read_tokens_u16(const std::filesystem::path& path);

/// The windows of a text, whose tokens must outlive them.
class text_windows {
 public:
  /// Cuts `tokens` for a model of this configuration. Errors: ecq::errc::invalid_argument for a window that is
  /// 0 or longer than the context, fewer tokens than one window takes, and tokens beyond the vocabulary.
  static ecq::result<text_windows> of(const model_config& config, std::span<const std::uint32_t> tokens,
                                      const window_options& how);

  std::size_t size() const noexcept { return count_; }
  std::size_t predictions() const noexcept { return count_ * width_; }

  /// The tokens of a window: one more than are predicted.
  std::span<const std::uint32_t> operator[](std::size_t window) const noexcept {
    return tokens_.subspan(window * (width_ + 1), width_ + 1);
  }

 private:
  text_windows(std::span<const std::uint32_t> tokens, std::size_t width, std::size_t count) noexcept
      : tokens_(tokens), width_(width), count_(count) {}

  std::span<const std::uint32_t> tokens_;
  std::size_t width_;
  std::size_t count_;
};

/// A model that reads windows. The pass must outlive it.
class window_reader {
 public:
  /// Errors name the model if it has a `name`.
  window_reader(forward_pass& pass, const model_config& config, std::string name = {});

  std::size_t vocabulary() const noexcept { return vocabulary_; }
  void begin() { cache_.clear(); }

  /// Reads the next tokens of a window. Errors: those of forward_pass::run.
  ecq::result<void> read(std::span<const std::uint32_t> tokens);

  /// Returns the logits (count x vocabulary) after `count` of the tokens read last, from number `first` on; valid until
  /// the next call. Errors: those of forward_pass::logits and check_logits.
  ecq::result<ecq::matrix_view<const float>> logits(std::size_t first, std::size_t count);

 private:
  template <class Value>
  ecq::result<Value> named(ecq::result<Value> outcome) const;

  forward_pass& pass_;
  std::size_t vocabulary_;
  kv_cache cache_;
  std::string name_;
  ecq::matrix_view<const float> states_;
};

/// Function that takes the predictions of some tokens of a window: the logits of each model, and the tokens.
using window_user =
    std::function<void(std::span<const ecq::matrix_view<const float>> logits, std::span<const std::uint32_t> targets)>;

/// Predicts a window with several models of one vocabulary side by side, a few million logits at a time. Calls
/// `use(logits, targets)` for one run of its tokens after another: logits[i] (targets x vocabulary) are those of
/// readers[i], finite and valid during the call. Errors: those of the readers.
ecq::result<void> predict_window(std::span<window_reader> readers, std::span<const std::uint32_t> window,
                                 const window_user& use);

}  // namespace llama
