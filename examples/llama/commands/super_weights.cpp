// ecq-llama super-weights: finds weights without which a model falls apart.

#include "super_weights.hpp"

#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "../../ecq/text.hpp"
#include "../model.hpp"
#include "../projection.hpp"
#include "../thread_pool.hpp"
#include "../tokenizer.hpp"

namespace llama_tool {

namespace {

std::string name_of(const llama::super_weight& one, const llama::expert_mixture& mixture) {
  return llama::tensor_name(mixture, one.layer, llama::matrix_index(llama::projection::down, one.expert));
}

/// Returns pairs of row and column by the name of their tensor.
tool::json list_of(std::span<const llama::super_weight> weights, const llama::expert_mixture& mixture) {
  tool::json list = tool::json::object();
  for (const llama::super_weight& one : weights) {
    list[name_of(one, mixture)].push_back({one.row, one.column});
  }
  return list;
}

tool::json details_of(std::span<const llama::super_weight> weights, const llama::expert_mixture& mixture) {
  tool::json details = tool::json::array();
  for (const llama::super_weight& one : weights) {
    details.push_back({{"tensor", name_of(one, mixture)},
                       {"row", one.row},
                       {"column", one.column},
                       {"weight", one.weight},
                       {"input", one.input},
                       {"output", one.output}});
  }
  return details;
}

tool::table as_table(const llama::super_weights& seen, const llama::expert_mixture& mixture) {
  tool::table shown({"tensor", "row", "column", "weight", "|input|", "|output|"}, 1);
  const auto add = [&](const llama::super_weight& one) {
    const auto number = [](float value) { return tool::significant(static_cast<double>(value), 4); };
    shown.add({name_of(one, mixture), std::to_string(one.row), std::to_string(one.column), number(one.weight),
               number(one.input), number(one.output)});
  };
  for (const llama::super_weight& one : seen.found) add(one);
  if (!seen.found.empty() && !seen.others.empty()) shown.rule();
  for (const llama::super_weight& one : seen.others) add(one);
  return shown;
}

}  // namespace

ecq::result<void> find_super_weights(const super_weights_arguments& given) {
  if (given.text.empty()) return ecq::error(ecq::errc::invalid_argument, "--text is empty");
  ECQ_TRY(model, open_model(given));
  ECQ_TRY(words, open_tokenizer(given.path, model.config()));
  ECQ_TRY(prompt, prompt_tokens(given.text, words, model.config()));
  std::optional<ecq::output_file> list;
  if (!given.output.empty()) {
    ECQ_TRY(opened, open_output({&given.path, 1}, given.output));
    list.emplace(std::move(opened));
  }
  llama::thread_pool pool(given.common.threads);
  ECQ_TRY(seen, tool::naming(given.path, llama::find_super_weights(model, pool, prompt, given.how)));
  const llama::expert_mixture& mixture = model.config().mixture;
  if (list) ECQ_CHECK(tool::commit(*list, list_of(seen.found, mixture).dump() + "\n"));
  if (given.common.as_json) {
    tool::print({{"model", given.path},
                 {"mode", given.mode},
                 {"activations", given.activations},
                 {"threshold", given.how.threshold},
                 {"prompt_tokens", prompt},
                 {"super_weights", details_of(seen.found, mixture)},
                 {"others", details_of(seen.others, mixture)}});
    return {};
  }
  if (!seen.found.empty() || !seen.others.empty()) std::cout << as_table(seen, mixture);
  if (!given.common.quiet) {
    std::cout << seen.found.size() << (seen.found.size() == 1 ? " super weight" : " super weights")
              << " with input and output above " << tool::significant(given.how.threshold, 4) << " in a text of "
              << prompt.size() << " tokens\n";
  }
  return {};
}

}  // namespace llama_tool
