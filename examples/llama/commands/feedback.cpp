#include "feedback.hpp"

#include <algorithm>
#include <utility>

#include "../../ecq/progress_bar.hpp"
#include "../forward.hpp"
#include "../int8_feedback.hpp"
#include "../model_config.hpp"
#include "../own_texts.hpp"
#include "../text_calibration.hpp"
#include "../tokenizer.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/model_files.hpp"

namespace llama_tool {

ecq::result<void> check_plain(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored) && !path.ends_with(".json")) {
    return ecq::error(ecq::errc::invalid_argument, ecq::detail::quoted(path),
                      ": name the folder of the model, whose other files belong to the result");
  }
  ECQ_TRY(compressed, ecq::is_container(std::filesystem::path(path)));
  if (!compressed) return {};
  return ecq::error(ecq::errc::invalid_argument, ecq::detail::quoted(path), " is already compressed");
}

ecq::result<ecq::sensitivity_map> sensitivities_of(const std::string& file) {
  if (file.empty()) return ecq::sensitivity_map();
  return ecq::read_sensitivities(file);
}

ecq::result<std::unique_ptr<feedback>> feedback::open(const feedback_options& given) {
  ECQ_TRY(sensitivities, sensitivities_of(given.sensitivities));
  ECQ_CHECK(check_plain(given.path));
  ECQ_TRY(weights, ecq::checkpoint::open(given.path));
  ECQ_CHECK(ecq::check_sensitivities(sensitivities, weights));  // before the model writes texts, which takes a while
  ECQ_TRY(model, open_model(given));
  ECQ_TRY(words, open_tokenizer(given.path, model.config()));
  ECQ_TRY(prompt, prompt_tokens("", words, model.config()));
  std::unique_ptr<feedback> opened(new feedback(given, std::move(model)));
  opened->sensitivities_ = std::move(sensitivities);
  const llama::model_config& config = opened->model_.config();
  llama::own_text_options how = given.texts;
  how.window = (std::min)({how.window, config.positions, llama::forward_pass::most_tokens});
  tool::progress_bar steps(given.common.quiet, "tokens");
  llama::forward_pass pass(opened->model_, opened->pool_);
  ECQ_TRY(texts, tool::naming(given.path, llama::own_texts(pass, config, prompt, how, [&](std::size_t done) {
                                steps.update({"writing texts", "", done, how.tokens});
                              })));
  steps.clear();
  for (const auto& text : texts) opened->tokens_ += text.size();
  opened->pass_ = std::make_shared<llama::text_calibration>(opened->model_, opened->pool_, std::move(texts));
  return opened;
}

ecq::result<ecq::compress_report> feedback::compress(const std::string& output, double bits, unsigned states) {
  ecq::compress_options options;
  options.method = ecq::any_method(llama::int8_feedback(pass_, bits, given_.correction, states));
  options.sensitivities = sensitivities_;
  const llama::model_config& config = model_.config();
  for (std::size_t layer = 0; config.mixture.experts != 0 && layer < config.layers; ++layer) {
    options.selection.exclude.push_back(llama::router_name(config.mixture, layer));  // of any shape
  }
  options.other_inputs = given_.other_inputs();
  tool::progress_bar bar(given_.common.quiet);
  return tool::naming(given_.path, ecq::compress_folder(pool_.backend(), given_.path, output, options, bar.callback()));
}

}  // namespace llama_tool
