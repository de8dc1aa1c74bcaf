#pragma once
/// \file
/// The windows of a text, and the predictions that models make of their tokens.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/little_endian.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/mapped_file.hpp"
#include "forward.hpp"
#include "generation.hpp"
#include "kv_cache.hpp"
#include "model_config.hpp"
#include "sampling.hpp"

namespace llama {

/// Which tokens are predicted: text is cut into windows of `window` + 1 tokens, one after another, and all but the
/// first of each are predicted from those before them in the window.
struct window_options {
  std::size_t window = 256;
  std::size_t windows = 0;  ///< at most; 0: as many as the text has
};

/// Reads tokens from a file of little-endian 16-bit numbers. Errors name the file: ecq::errc::truncated for an odd
/// number of bytes.
inline ecq::result<std::vector<std::uint32_t>> read_tokens_u16(const std::filesystem::path& path) {
  ECQ_TRY(file, ecq::mapped_file::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() % 2 != 0) {
    return ecq::error(ecq::errc::truncated, "'", path.string(), "': ", bytes.size(),
                      " bytes, not a whole number of 16-bit tokens");
  }
  std::vector<std::uint32_t> tokens;
  tokens.reserve(bytes.size() / 2);
  for (std::size_t at = 0; at < bytes.size(); at += 2) tokens.push_back(ecq::load_le<std::uint16_t>(&bytes[at]));
  return tokens;
}

/// The windows of a text, whose tokens must outlive them.
class text_windows {
 public:
  /// Cuts `tokens` for a model of this configuration. Errors: ecq::errc::invalid_argument for a window longer than the
  /// context, fewer tokens than one window takes, and tokens beyond the vocabulary.
  static ecq::result<text_windows> of(const model_config& config, std::span<const std::uint32_t> tokens,
                                      const window_options& how) {
    if (how.window == 0 || how.window > config.positions) {
      return ecq::error(ecq::errc::invalid_argument, "windows of ", how.window, " predictions, not 1 to ",
                        config.positions, ", the context of the model");
    }
    const std::size_t all = tokens.size() / (how.window + 1);
    const std::size_t count = how.windows == 0 ? all : (std::min)(all, how.windows);
    if (count == 0) {
      return ecq::error(ecq::errc::invalid_argument, "text of ", tokens.size(), " tokens, one window takes ",
                        how.window + 1);
    }
    const auto odd = std::ranges::find_if(tokens, [&](std::uint32_t token) { return token >= config.vocabulary; });
    if (odd != tokens.end()) {
      return ecq::error(ecq::errc::invalid_argument, "token ", *odd, " at position ",
                        std::distance(tokens.begin(), odd), " of the text, the vocabulary has ", config.vocabulary);
    }
    return text_windows(tokens, how.window, count);
  }

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
  window_reader(forward_pass& pass, const model_config& config, std::string name = {})
      : pass_(pass), vocabulary_(config.vocabulary), cache_(config), name_(std::move(name)) {}

  std::size_t vocabulary() const noexcept { return vocabulary_; }
  void begin() { cache_.clear(); }

  /// Reads the next tokens of a window. Errors: those of forward_pass::run.
  ecq::result<void> read(std::span<const std::uint32_t> tokens) {
    ECQ_TRY(states, named(pass_.run(tokens, cache_)));
    states_ = states;
    return {};
  }

  /// The logits (count x vocabulary) behind some of the tokens that were read last, valid until the next call. Errors:
  /// those of forward_pass::logits and check_logits.
  ecq::result<ecq::matrix_view<const float>> logits(std::size_t first, std::size_t count) {
    ECQ_TRY(logits, named(pass_.logits(states_.row_range(first, count))));
    ECQ_CHECK(named(check_logits({logits.data(), logits.size()})));
    return logits;
  }

 private:
  template <class Value>
  ecq::result<Value> named(ecq::result<Value> outcome) const {
    if (outcome || name_.empty()) return outcome;
    return std::move(outcome).error().within("'", name_, "'");
  }

  forward_pass& pass_;
  std::size_t vocabulary_;
  kv_cache cache_;
  std::string name_;
  ecq::matrix_view<const float> states_;
};

/// Has models of one vocabulary predict a window side by side, a few million logits at a time. Calls
/// `use(logits, targets)` for one run of its tokens after another: logits[i] (targets x vocabulary) are those of
/// readers[i], finite and valid during the call. Errors: those of the readers.
template <class Use>
ecq::result<void> predict_window(std::span<window_reader> readers, std::span<const std::uint32_t> window,
                                 const Use& use) {
  constexpr std::size_t logits_at_a_time = 1 << 22;
  const std::size_t step = (std::max)(std::size_t{1}, logits_at_a_time / readers.front().vocabulary());
  std::vector<ecq::matrix_view<const float>> logits(readers.size());
  for (window_reader& reader : readers) reader.begin();
  for (auto rest = window; rest.size() > 1;) {
    const std::size_t count = (std::min)(detail::tokens_per_pass, rest.size() - 1);
    for (window_reader& reader : readers) ECQ_CHECK(reader.read(rest.first(count)));
    for (std::size_t from = 0; from < count; from += step) {
      const auto targets = rest.subspan(from + 1, (std::min)(step, count - from));
      for (std::size_t index = 0; index < readers.size(); ++index) {
        ECQ_TRY(rows, readers[index].logits(from, targets.size()));
        logits[index] = rows;
      }
      use(std::span<const ecq::matrix_view<const float>>(logits), targets);
    }
    rest = rest.subspan(count);
  }
  return {};
}

}  // namespace llama
