#pragma once
/// \file
/// Code that the commands of ecq-llama share: models and texts that they read, and files that they write about them.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "../../ecq/answer.hpp"
#include "../text_windows.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/output_file.hpp"

namespace ecq {
enum class activation_type : unsigned char;
}

namespace llama {
class model;
struct model_config;
class tokenizer;
}  // namespace llama

namespace llama_tool {

/// Options that most commands have.
struct model_options {
  std::string path;
  std::string mode = "dense";
  std::string activations = "fp32";
  tool::common_options common;

  ecq::activation_type activation_type() const;
};

/// Opens the model at `path` by the options, except for the activations. Shows its progress. Errors: those of
/// llama::model::open.
ecq::result<llama::model> open_model(const model_options& given, const std::string& path,
                                     ecq::activation_type activations);
ecq::result<llama::model> open_model(const model_options& given);

/// Opens the tokenizer beside the model at `path`. Errors: those of llama::tokenizer::load.
ecq::result<llama::tokenizer> open_tokenizer(const std::string& path, const llama::model_config& config);

/// Returns the tokens of the prompt, after those that begin every text. If there are none at all, returns those of a
/// line end.
ecq::result<std::vector<std::uint32_t>> prompt_tokens(const std::string& prompt, const llama::tokenizer& words,
                                                      const llama::model_config& config);

/// Options of a text and its windows.
struct text_options {
  std::string file;
  bool tokens_u16 = false;
  llama::window_options how;
};

/// Returns the tokens of the text by the tokenizer beside the model at `path`. Errors name the file.
ecq::result<std::vector<std::uint32_t>> tokens_of(const text_options& given, const std::string& path,
                                                  const llama::model_config& config);

/// Opens a file for results about the models at `paths`, made with the files `others`. Errors: those of
/// ecq::output_file::create and ecq::refuse_to_overwrite.
ecq::result<ecq::output_file> open_output(std::span<const std::string> paths, const std::string& output,
                                          std::span<const std::filesystem::path> others = {});

/// Returns the memory that the weights take, and the most memory that the process has had; memory_text() returns them
/// as text.
tool::json memory_json(const llama::model& model);
std::string memory_text(const llama::model& model);

inline double rate(std::size_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
}

}  // namespace llama_tool
