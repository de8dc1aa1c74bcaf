// ecq generate: makes a checkpoint, for users without a model at hand.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../generate/synthetic_checkpoint.hpp"
#include "command.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/io/safetensors_writer.hpp"
#include "progress_bar.hpp"
#include "text.hpp"

namespace {

using ecq_examples::presets;
using ecq_examples::synthetic_tensor;

struct generate_options : tool::common_options {
  std::string output, preset = "demo";
  std::uint64_t seed = 1;
  bool list = false;
};

constexpr std::size_t weights_at_once = std::size_t{1} << 23;

std::uint64_t weights_of(const std::vector<synthetic_tensor>& tensors) {
  std::uint64_t weights = 0;
  for (const synthetic_tensor& tensor : tensors) weights += tensor.size();
  return weights;
}

ecq::result<void> write_tensor(const generate_options& given, const synthetic_tensor& tensor,
                               std::span<ecq::bf16> buffer, ecq::safetensors_writer& writer) {
  for (std::uint64_t first = 0; first < tensor.size(); first += buffer.size()) {
    const auto part =
        buffer.first(static_cast<std::size_t>((std::min)(std::uint64_t{buffer.size()}, tensor.size() - first)));
    fill(given.backend(), tensor, given.seed, first, part);
    if constexpr (std::endian::native != std::endian::little) {
      for (ecq::bf16& weight : part) ecq::store_le(reinterpret_cast<std::byte*>(&weight), weight.bits);
    }
    ECQ_CHECK(writer.append(std::as_bytes(part)));
  }
  return {};
}

void list_presets(const generate_options& given) {
  tool::json list = tool::json::array();
  tool::table rows({"preset", "what it is"}, 2);
  for (const ecq_examples::preset& each : presets) {
    list.push_back(
        {{"name", each.name}, {"description", each.description}, {"weights", weights_of(ecq_examples::tensors(each))}});
    rows.add({std::string(each.name), std::string(each.description)});
  }
  if (given.as_json) {
    tool::print({{"presets", list}});
  } else {
    std::cout << rows;
  }
}

ecq::result<void> run(const generate_options& given) {
  if (given.list) {
    list_presets(given);
    return {};
  }
  const tool::stopwatch clock;
  const std::vector<synthetic_tensor> tensors = ecq_examples::tensors(*ecq_examples::find_preset(given.preset));
  const std::uint64_t weights = weights_of(tensors);
  std::vector<ecq::tensor_declaration> declarations;
  for (const synthetic_tensor& tensor : tensors) {
    declarations.push_back({tensor.name, ecq::safetensors_name(tensor.type), tensor.shape});
  }
  ECQ_TRY(writer, ecq::safetensors_writer::create(given.output, std::move(declarations),
                                                  {{"format", "pt"},
                                                   {"generator", "ecq generate --preset " + given.preset + " --seed " +
                                                                     std::to_string(given.seed)}}));
  tool::progress_bar bar(given.quiet);
  std::vector<ecq::bf16> buffer(static_cast<std::size_t>((std::min)(weights, std::uint64_t{weights_at_once})));
  for (const synthetic_tensor& tensor : tensors) {
    bar.update({"generating", tensor.name, writer.data_size(), 2 * weights});
    ECQ_CHECK(writer.begin(tensor.name));
    ECQ_CHECK(write_tensor(given, tensor, buffer, writer));
    ECQ_CHECK(writer.end());
  }
  ECQ_CHECK(writer.commit());
  bar.clear();
  const std::uint64_t bytes = writer.data_begin() + writer.data_size();
  const double seconds = clock.seconds();
  if (given.as_json) {
    tool::print(
        {{"output", given.output},
         {"preset", given.preset},
         {"seed", given.seed},
         {"totals", {{"weights", weights}, {"tensors", tensors.size()}, {"file_bytes", bytes}, {"seconds", seconds}}}});
  } else if (!given.quiet) {
    std::cout << tool::printable(given.output) << ": " << tool::grouped(weights) << " weights in " << tensors.size()
              << " tensors, " << tool::bytes(bytes) << ", in " << tool::duration(seconds) << '\n';
  }
  return {};
}

}  // namespace

void tool::add_generate(CLI::App& app, action& chosen) {
  auto given = std::make_shared<generate_options>();
  CLI::App* command =
      app.add_subcommand("generate", "Generate a Llama-shaped checkpoint with the statistics of trained weights");
  std::vector<std::string> names;
  for (const ecq_examples::preset& each : presets) names.emplace_back(each.name);
  command
      ->add_option("OUT", given->output,
                   "Checkpoint to write; an existing one is replaced only when the new one is complete")
      ->check(seekable_name());
  command->add_option("--preset", given->preset, "Model to generate (see --list)")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command->add_option("--seed", given->seed, "Seed of the random weights")
      ->check(whole_number())
      ->capture_default_str();
  command->add_flag("--list", given->list, "List the presets and exit");
  add_common_options(*command, *given);
  command->final_callback([given, &chosen] {
    if (!given->list && given->output.empty()) throw CLI::RequiredError("OUT");
    chosen = [given] { return run(*given); };
  });
}
