#include "inputs.hpp"

#include <sys/resource.h>

#include <filesystem>

#include "../../ecq/progress_bar.hpp"
#include "../../ecq/text.hpp"
#include "../model.hpp"
#include "../model_config.hpp"
#include "../tokenizer.hpp"
#include "ecq/io/mapped_file.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/matmul/matmul_plan.hpp"

namespace llama_tool {

namespace {

/// Returns the most memory that the process has had, in bytes.
std::uint64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
#if defined(__APPLE__)
  return static_cast<std::uint64_t>(usage.ru_maxrss);
#else
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
#endif
}

}  // namespace

ecq::activation_type model_options::activation_type() const {
  if (activations == "int8") return ecq::activation_type::int8;
  return activations == "bf16" ? ecq::activation_type::bf16 : ecq::activation_type::fp32;
}

ecq::result<llama::model> open_model(const model_options& given, const std::string& path,
                                     ecq::activation_type activations) {
  tool::progress_bar bar(given.common.quiet);
  const auto mode = given.mode == "block"   ? llama::weight_mode::block
                    : given.mode == "fused" ? llama::weight_mode::fused
                                            : llama::weight_mode::dense;
  return tool::naming(path, llama::model::open(path, mode, given.common.backend(), bar.callback(), activations));
}

ecq::result<llama::model> open_model(const model_options& given) {
  return open_model(given, given.path, given.activation_type());
}

ecq::result<llama::tokenizer> open_tokenizer(const std::string& path, const llama::model_config& config) {
  return llama::tokenizer::load(llama::folder_of(path), config.vocabulary);
}

ecq::result<std::vector<std::uint32_t>> prompt_tokens(const std::string& prompt, const llama::tokenizer& words,
                                                      const llama::model_config& config) {
  std::vector<std::uint32_t> tokens = words.begin();
  if (tokens.empty() && prompt.empty() && config.begin_token) tokens.push_back(*config.begin_token);
  ECQ_TRY(of_text, words.encode(tokens.empty() && prompt.empty() ? "\n" : prompt));
  tokens.insert(tokens.end(), of_text.begin(), of_text.end());
  return tokens;
}

ecq::result<std::vector<std::uint32_t>> tokens_of(const text_options& given, const std::string& path,
                                                  const llama::model_config& config) {
  if (given.tokens_u16) return llama::read_tokens_u16(given.file);
  ECQ_TRY(words, open_tokenizer(path, config));
  ECQ_TRY(file, ecq::mapped_file::open(given.file));
  const auto bytes = file.bytes();
  return tool::naming(given.file, words.encode({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

ecq::result<ecq::output_file> open_output(std::span<const std::string> paths, const std::string& output,
                                          std::span<const std::filesystem::path> others) {
  std::vector<std::filesystem::path> inputs(others.begin(), others.end());
  for (const std::string& path : paths) {
    ECQ_TRY(files, ecq::model_files::of(path));
    for (const char* const name : {"config.json", "generation_config.json", "tokenizer.json"})
      inputs.push_back(files.folder / name);
    if (!files.index.empty()) inputs.push_back(files.folder / files.index);
    for (const auto& shard : files.shards) inputs.push_back(files.folder / shard);
  }
  ECQ_CHECK(ecq::refuse_to_overwrite(output, inputs));
  return ecq::output_file::create(output);
}

tool::json memory_json(const llama::model& model) {
  const llama::memory_use use = model.memory();
  return {{"weight_bytes", use.total()},
          {"dense_bytes", use.dense},
          {"coded_bytes", use.coded},
          {"buffer_bytes", use.buffers},
          {"peak_bytes", peak_memory()}};
}

std::string memory_text(const llama::model& model) {
  return "weights " + tool::bytes(model.memory().total()) + ", peak memory " + tool::bytes(peak_memory());
}

}  // namespace llama_tool
