// ecq-llama generate: continues a text.

#include "generate.hpp"

#include <cstdint>
#include <iostream>
#include <span>
#include <utility>

#include "../../ecq/progress_bar.hpp"
#include "../../ecq/text.hpp"
#include "../forward.hpp"
#include "../model.hpp"
#include "../text_stream.hpp"
#include "../thread_pool.hpp"
#include "../tokenizer.hpp"

namespace llama_tool {

ecq::result<void> generate(const generate_arguments& given) {
  ECQ_TRY(model, open_model(given));
  const llama::model_config& config = model.config();
  ECQ_TRY(words, open_tokenizer(given.path, config));
  ECQ_TRY(prompt, prompt_tokens(given.prompt, words, config));
  llama::thread_pool pool(given.common.threads);
  llama::forward_pass pass(model, pool);
  // Without JSON, the tokens themselves show the progress.
  tool::progress_bar bar(given.common.quiet || !given.common.as_json, "tokens");
  llama::text_stream shown(std::cout);
  const auto show = [&](std::span<const std::uint32_t> tokens) {
    bar.update({"generating", "", tokens.size(), given.how.tokens});
    if (given.common.as_json) return;
    if (tokens.size() == 1) shown.add(given.prompt);
    shown.add(words.decode(tokens.last(1)));
  };
  ECQ_TRY(made, tool::naming(given.path, llama::generate(pass, config, prompt, given.how, show)));
  bar.clear();
  // The first token comes with the prompt.
  const double speed = rate(made.tokens.empty() ? 0 : made.tokens.size() - 1, made.seconds);
  if (given.common.as_json) {
    tool::json answer{{"model", given.path},
                      {"mode", given.mode},
                      {"activations", given.activations},
                      {"prompt_tokens", prompt},
                      {"tokens", made.tokens},
                      {"text", words.decode(made.tokens)},
                      {"stop", made.stop},
                      {"prompt_seconds", made.prompt_seconds},
                      {"seconds", made.seconds},
                      {"tokens_per_second", speed},
                      {"cache_bytes", made.cache_bytes}};
    answer.update(memory_json(model));
    tool::print(std::move(answer));
  } else {
    if (made.tokens.empty()) shown.add(given.prompt);
    shown.end();
    if (!given.common.quiet) {
      std::cout << '\n'
                << made.tokens.size() << " tokens, " << tool::significant(speed, 3) << " per second after a prompt of "
                << prompt.size() << " in " << tool::duration(made.prompt_seconds) << "; " << memory_text(model) << '\n';
    }
  }
  return {};
}

}  // namespace llama_tool
