// ecq-llama perplexity: measures how well a model predicts a text.

#include "perplexity.hpp"

#include <cstddef>
#include <iostream>
#include <utility>

#include "../../ecq/progress_bar.hpp"
#include "../../ecq/text.hpp"
#include "../forward.hpp"
#include "../model.hpp"
#include "../perplexity.hpp"
#include "../thread_pool.hpp"

namespace llama_tool {

ecq::result<void> perplexity(const perplexity_arguments& given) {
  ECQ_TRY(model, open_model(given));
  ECQ_TRY(tokens, tokens_of(given, given.path, model.config()));
  llama::thread_pool pool(given.common.threads);
  llama::forward_pass pass(model, pool);
  tool::progress_bar bar(given.common.quiet, "tokens");
  const auto report_progress = [&](std::size_t done, std::size_t all) {
    bar.update({"predicting", "", done * given.how.window, all * given.how.window});
  };
  ECQ_TRY(measured, tool::naming(given.file, llama::measure_perplexity(pass, pool, model.config(), tokens, given.how,
                                                                       report_progress)));
  bar.clear();
  const double speed = rate(measured.predictions, measured.seconds);
  if (given.common.as_json) {
    tool::json answer{
        {"model", given.path},         {"mode", given.mode},         {"activations", given.activations},
        {"file", given.file},          {"loss", measured.loss},      {"perplexity", measured.perplexity()},
        {"windows", measured.windows}, {"window", given.how.window}, {"predictions", measured.predictions},
        {"seconds", measured.seconds}, {"tokens_per_second", speed}};
    answer.update(memory_json(model));
    tool::print(std::move(answer));
  } else if (!given.common.quiet) {
    std::cout << "loss " << tool::decimal(measured.loss, 4) << " nats per token (perplexity "
              << tool::significant(measured.perplexity(), 4) << ") over " << tool::grouped(measured.predictions)
              << " predictions in " << measured.windows << " windows; " << tool::significant(speed, 3)
              << " tokens per second, " << memory_text(model) << '\n';
  }
  return {};
}

}  // namespace llama_tool
