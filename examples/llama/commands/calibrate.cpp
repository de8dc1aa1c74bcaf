// ecq-llama calibrate: measures how much the predictions of a model depend on each of its matrices.

#include "calibrate.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <string>
#include <string_view>

#include "../../ecq/progress_bar.hpp"
#include "../../ecq/text.hpp"
#include "../forward.hpp"
#include "../model.hpp"
#include "../projection.hpp"
#include "../thread_pool.hpp"
#include "../tokenizer.hpp"

namespace llama_tool {

ecq::result<void> calibrate(const calibrate_arguments& given) {
  ECQ_TRY(model, open_model(given));
  ECQ_TRY(words, open_tokenizer(given.path, model.config()));
  ECQ_TRY(prompt, prompt_tokens("", words, model.config()));
  ECQ_TRY(list, open_output({&given.path, 1}, given.output));
  llama::thread_pool pool(given.common.threads);
  llama::calibration_options how = given.how;
  how.texts.window = (std::min)({how.texts.window, model.config().positions, llama::forward_pass::most_tokens});
  tool::progress_bar steps(given.common.quiet, "steps");
  const auto start = std::chrono::steady_clock::now();
  ECQ_TRY(measured,
          tool::naming(given.path, llama::calibrate(model, pool, prompt, how,
                                                    [&](std::string_view stage, std::size_t done, std::size_t total) {
                                                      steps.update({stage, "", done, total});
                                                    })));
  steps.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  tool::json content = tool::json::object(), details = tool::json::array();
  tool::table shown({"tensor", "relative error", "divergence", "sensitivity"}, 1);
  for (const llama::matrix_sensitivity& one : measured) {
    const std::string name = llama::tensor_name(model.config().mixture, one.layer, one.matrix);
    content[name] = one.sensitivity;
    details.push_back({{"tensor", name},
                       {"relative_error", one.relative_error},
                       {"divergence", one.divergence},
                       {"sensitivity", one.sensitivity}});
    shown.add({name, tool::significant(one.relative_error, 3), tool::significant(one.divergence, 3),
               tool::significant(one.sensitivity, 3)});
  }
  // Routers that have nearly as many rows as columns are compressed like other matrices.
  for (std::size_t layer = 0; model.config().mixture.experts != 0 && layer < model.config().layers; ++layer) {
    content[llama::router_name(model.config().mixture, layer)] = 1;
  }
  ECQ_CHECK(tool::commit(list, content.dump() + "\n"));
  if (given.common.as_json) {
    tool::print({{"model", given.path}, {"tensors", details}, {"seconds", seconds}});
  } else if (!given.common.quiet) {
    std::cout << shown << tool::printable(given.output) << ": sensitivities of " << measured.size() << " tensors, in "
              << tool::duration(seconds) << '\n';
  }
  return {};
}

}  // namespace llama_tool
