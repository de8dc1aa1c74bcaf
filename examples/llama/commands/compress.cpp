// ecq-llama compress: error feedback by what the layers of the model see in texts that it writes itself.

#include "compress.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "../../ecq/progress_bar.hpp"
#include "../../ecq/text.hpp"
#include "../forward.hpp"
#include "../text_calibration.hpp"
#include "../thread_pool.hpp"
#include "ecq/calibrated/calibrated_method.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/sensitivities.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/io/model_files.hpp"

namespace llama_tool {

ecq::result<void> compress(const compress_arguments& given) {
  const auto start = std::chrono::steady_clock::now();
  ecq::compress_options options;
  if (!given.sensitivities.empty()) {
    ECQ_TRY(sensitivities, ecq::read_sensitivities(given.sensitivities));
    options.sensitivities = std::move(sensitivities);
  }
  // Before the model writes texts, which takes a while.
  ECQ_TRY(files, ecq::model_files::of(given.path));
  ECQ_CHECK(ecq::check_apart(files.folder, given.output));
  ECQ_TRY(compressed, ecq::is_container(files.folder));
  if (compressed) {
    return ecq::error(ecq::errc::invalid_argument, ecq::detail::quoted(given.path), ": it is compressed already");
  }
  ECQ_TRY(model, open_model(given));
  ECQ_TRY(words, open_tokenizer(given.path, model.config()));
  ECQ_TRY(prompt, prompt_tokens("", words, model.config()));
  llama::thread_pool pool(given.common.threads);
  llama::own_text_options how = given.texts;
  how.window = (std::min)({how.window, model.config().positions, llama::forward_pass::most_tokens});
  tool::progress_bar steps(given.common.quiet, "tokens");
  llama::forward_pass pass(model, pool);
  ECQ_TRY(texts, tool::naming(given.path, llama::own_texts(pass, model.config(), prompt, how, [&](std::size_t done) {
                                steps.update({"writing texts", "", done, how.tokens});
                              })));
  steps.clear();
  std::size_t tokens = 0;
  for (const auto& text : texts) tokens += text.size();
  ecq::calibration calibration{
      .pass = std::make_shared<llama::text_calibration>(model, pool, std::move(texts)),
      .target_bits = given.bits,
      .correction = given.correction,
  };
  if (given.states != 0) calibration.state_bits = static_cast<unsigned>(std::countr_zero(given.states));
  options.method = ecq::any_method(std::make_shared<const ecq::calibrated_method<ecq::int8>>(calibration));
  tool::progress_bar bar(given.common.quiet);
  ECQ_TRY(report, tool::naming(given.path, ecq::compress_folder(pool.backend(), given.path, given.output, options,
                                                                bar.callback())));
  bar.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (given.common.as_json) {
    tool::print({{"input", given.path},
                 {"output", given.output},
                 {"bits_per_weight", report.bits_per_weight},
                 {"weights", report.weights},
                 {"entropy", report.entropy},
                 {"lambda", report.lambda},
                 {"file_bytes", report.file_bytes},
                 {"tokens", tokens},
                 {"seconds", seconds}});
  } else if (!given.common.quiet) {
    std::cout << tool::printable(given.output) << ": " << tool::grouped(report.weights) << " weights at "
              << tool::decimal(report.bits_per_weight, 3) << " bits, by what the model sees in "
              << tool::grouped(tokens) << " tokens that it has written itself, in " << tool::duration(seconds) << '\n';
  }
  return {};
}

}  // namespace llama_tool
