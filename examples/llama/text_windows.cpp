// Windows of a text, and models that read them, a few million logits at a time.

#include "text_windows.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ecq/base/little_endian.hpp"
#include "ecq/io/mapped_file.hpp"
#include "forward.hpp"
#include "generation.hpp"
#include "model_config.hpp"
#include "sampling.hpp"

namespace llama {

ecq::result<std::vector<std::uint32_t>> read_tokens_u16(const std::filesystem::path& path) {
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

ecq::result<text_windows> text_windows::of(const model_config& config, std::span<const std::uint32_t> tokens,
                                           const window_options& how) {
  if (how.window == 0 || how.window > config.positions) {
    return ecq::error(ecq::errc::invalid_argument, "windows of ", how.window, " predictions, not 1 to ",
                      config.positions, ", the context of the model");
  }
  const std::size_t all = tokens.size() / (how.window + 1);
  const std::size_t count = how.windows == 0 ? all : (std::min)(all, how.windows);
  if (count == 0) {
    return ecq::error(ecq::errc::invalid_argument, "text has ", tokens.size(), " tokens, but one window takes ",
                      how.window + 1);
  }
  const auto odd = std::ranges::find_if(tokens, [&](std::uint32_t token) { return token >= config.vocabulary; });
  if (odd != tokens.end()) {
    return ecq::error(ecq::errc::invalid_argument, "token ", *odd, " at position ", std::distance(tokens.begin(), odd),
                      " of the text is outside the vocabulary of ", config.vocabulary);
  }
  return text_windows(tokens, how.window, count);
}

window_reader::window_reader(forward_pass& pass, const model_config& config, std::string name)
    : pass_(pass), vocabulary_(config.vocabulary), cache_(config), name_(std::move(name)) {}

template <class Value>
ecq::result<Value> window_reader::named(ecq::result<Value> outcome) const {
  if (outcome || name_.empty()) return outcome;
  return std::move(outcome).error().within("'", name_, "'");
}

ecq::result<void> window_reader::read(std::span<const std::uint32_t> tokens) {
  ECQ_TRY(states, named(pass_.run(tokens, cache_)));
  states_ = states;
  return {};
}

ecq::result<ecq::matrix_view<const float>> window_reader::logits(std::size_t first, std::size_t count) {
  ECQ_TRY(logits, named(pass_.logits(states_.row_range(first, count))));
  ECQ_CHECK(named(check_logits({logits.data(), logits.size()})));
  return logits;
}

ecq::result<void> predict_window(std::span<window_reader> readers, std::span<const std::uint32_t> window,
                                 const window_user& use) {
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
