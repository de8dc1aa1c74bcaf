// ecq-llama compare: measures the loss of a model by rate and method, in weights and in predictions.

#include "compare.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "../../ecq/plot_svg.hpp"
#include "../../ecq/progress_bar.hpp"
#include "../../ecq/text.hpp"
#include "../comparison.hpp"
#include "../forward.hpp"
#include "../model.hpp"
#include "../model_config.hpp"
#include "../text_windows.hpp"
#include "../thread_pool.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/inspect_checkpoint.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "feedback.hpp"

namespace llama_tool {

namespace {

/// A model and its differences from the original; by default, those of the original itself.
struct row {
  std::string model;
  std::string method{};  ///< by which it was made for the comparison, else empty
  double bits_per_weight = 0;
  double sqnr_db = std::numeric_limits<double>::infinity();
  double loss = 0;
  double loss_difference = 0, divergence = 0, largest_divergence = 0;  ///< thousandths of a nat per token
};

/// Returns the bits of a compressed weight; those of all weights if none is compressed.
ecq::result<double> bits_per_weight(const compare_arguments& given, const std::string& path) {
  tool::progress_bar bar(given.common.quiet);
  ECQ_TRY(report, tool::naming(path, ecq::inspect_checkpoint(given.common.backend(), path, bar.callback())));
  if (report.container) return report.bits_per_weight;
  double bits = 0, weights = 0;
  for (const ecq::tensor_report& tensor : report.tensors) {
    bits += tensor.bits_per_weight * static_cast<double>(tensor.weights);
    weights += static_cast<double>(tensor.weights);
  }
  return weights == 0 ? 0 : bits / weights;
}

/// Compares all coded models, one after another, with the original: their weights, and their predictions of the text.
class comparison {
 public:
  comparison(const compare_arguments& given, const llama::model& original, std::span<const std::uint32_t> tokens)
      : given_(given), original_(original), tokens_(tokens), pool_(given.common.threads) {}

  /// Measures a model, and adds a row to rows(). Errors name the model or the text.
  ecq::result<void> add(const std::string& path, const std::string& method = {}) {
    ECQ_TRY(model, open_model(given_, path, given_.activation_type()));
    ECQ_CHECK(tool::naming(path, llama::check_same_shape(original_.config(), model.config())));
    ECQ_CHECK(tool::naming(path, check_tokens(path, model.config())));
    row added{.model = path, .method = method};
    ECQ_TRY(bits, bits_per_weight(given_, path));
    added.bits_per_weight = bits;
    ECQ_TRY(error, tool::naming(path, error_of(path, model)));
    added.sqnr_db = error.sqnr_db();
    ECQ_TRY(seen, tool::naming(given_.file, predict(path, model)));
    constexpr double thousandths = 1000;
    added.loss = seen.loss;
    added.loss_difference = thousandths * (seen.loss - seen.original_loss);
    added.divergence = thousandths * seen.divergence;
    added.largest_divergence = thousandths * seen.largest_divergence;
    rows_.push_back(std::move(added));
    seen_ = seen;
    return {};
  }

  const std::vector<row>& rows() const noexcept { return rows_; }
  /// Returns the result of the last model. Its counts and the loss of the original are the same for all models.
  const llama::prediction_difference& seen() const noexcept { return seen_; }

 private:
  /// Fails if the model takes the text for other tokens: its predictions could not be compared.
  ecq::result<void> check_tokens(const std::string& path, const llama::model_config& config) const {
    ECQ_TRY(tokens, tokens_of(given_, path, config));
    if (std::ranges::equal(tokens, tokens_)) return {};
    return ecq::error(ecq::errc::invalid_argument, "its tokenizer produces different tokens for '", given_.file, "'");
  }

  ecq::result<ecq::weight_error> error_of(const std::string& path, const llama::model& model) const {
    tool::progress_bar bar(given_.common.quiet, "layers");
    return llama::compare_layers(given_.common.backend(), original_, model, [&](std::size_t done, std::size_t all) {
      bar.update({"comparing weights", path, done, all});
    });
  }

  ecq::result<llama::prediction_difference> predict(const std::string& path, const llama::model& model) {
    tool::progress_bar bar(given_.common.quiet, "tokens");
    const std::size_t window = given_.how.window;
    llama::forward_pass original(original_, pool_), other(model, pool_);
    return llama::compare_predictions({original, original_.config(), given_.path}, {other, model.config(), path}, pool_,
                                      original_.config(), tokens_, given_.how, [&](std::size_t done, std::size_t all) {
                                        bar.update({"predicting", path, done * window, all * window});
                                      });
  }

  const compare_arguments& given_;
  const llama::model& original_;
  std::span<const std::uint32_t> tokens_;
  llama::thread_pool pool_;
  std::vector<row> rows_;
  llama::prediction_difference seen_;
};

/// Makes models from the original, by each method at each rate.
class model_maker {
 public:
  explicit model_maker(const compare_arguments& given) : given_(given) {}

  /// Makes a model, and returns the folder that it is written to.
  ecq::result<std::string> make(const std::string& method, double bits) {
    char number[32];
    std::snprintf(number, sizeof number, "-%g", bits);
    std::string output = (std::filesystem::path(given_.folder) / (method + number)).string();
    ECQ_CHECK(ecq::check_apart(given_.file, output));  // the text, which is no file of the model
    const std::size_t trellis = method.find("tcq");
    const auto states =
        trellis == std::string::npos ? 0U : static_cast<unsigned>(std::stoul(method.substr(trellis + 3)));
    ECQ_CHECK(method.starts_with("feedback") ? feed_back(output, bits, states) : round(output, bits, states));
    return output;
  }

 private:
  ecq::result<void> feed_back(const std::string& output, double bits, unsigned states) {
    if (feedback_ == nullptr) {
      feedback_options dense = given_;
      dense.mode = "dense";
      dense.activations = "fp32";
      ECQ_TRY(opened, feedback::open(dense));
      feedback_ = std::move(opened);
    }
    ECQ_CHECK(feedback_->compress(output, bits, states));
    return {};
  }

  ecq::result<void> round(const std::string& output, double bits, unsigned states) const {
    ecq::compress_options options;
    options.method = ecq::entquant{.target_bits = bits};
    if (states != 0) {
      const auto state_bits = static_cast<unsigned>(std::countr_zero(states));
      options.method = ecq::tcq{.state_bits = state_bits, .target_bits = bits};
    }
    ECQ_TRY(sensitivities, sensitivities_of(given_.sensitivities));
    options.sensitivities = std::move(sensitivities);
    options.other_inputs = given_.other_inputs();
    tool::progress_bar bar(given_.common.quiet);
    ECQ_CHECK(tool::naming(
        given_.path, ecq::compress_folder(given_.common.backend(), given_.path, output, options, bar.callback())));
    return {};
  }

  const compare_arguments& given_;
  std::unique_ptr<feedback> feedback_;  ///< for all rates; opened once a method needs it
};

tool::json as_json(const row& shown) {
  return {{"model", shown.model},
          {"method", shown.method},
          {"bits_per_weight", shown.bits_per_weight},
          {"unbiased_sqnr_db", shown.sqnr_db},
          {"loss", shown.loss},
          {"loss_difference_mnat", shown.loss_difference},
          {"divergence_mnat", shown.divergence},
          {"largest_divergence_mnat", shown.largest_divergence}};
}

tool::table as_table(const std::vector<row>& rows) {
  tool::table shown({"model", "bits/weight", "SQNR dB", "loss", "difference", "KL", "largest KL"}, 1);
  for (const row& each : rows) {
    shown.add({each.model, tool::decimal(each.bits_per_weight, 3), tool::decimal(each.sqnr_db, 2),
               tool::decimal(each.loss, 4), tool::decimal(each.loss_difference, 1), tool::decimal(each.divergence, 1),
               tool::decimal(each.largest_divergence, 1)});
  }
  return shown;
}

/// Draws the coded models: a line for each method by which some were made, and the others by their names.
tool::plot as_plot(const compare_arguments& given, const std::vector<row>& rows, std::size_t predictions) {
  tool::plot chart;
  chart.title = "Divergence of predictions by bits per weight";
  chart.subtitle = tool::short_name(given.path) + " and what was made of it: " + tool::grouped(predictions) +
                   " predictions; scales, tables and all other overhead counted";
  chart.x_label = "bits per weight (fewer is better)";
  chart.y_label = "KL divergence in milli-nats per token (fewer is better)";
  chart.log_y = true;
  for (const row& each : rows) {
    const std::string name = each.method.empty() ? tool::short_name(each.model) : each.method;
    if (chart.series.empty() || each.method.empty() || chart.series.back().name != name) {
      chart.series.push_back({name, {}});
    }
    chart.series.back().points.push_back({each.bits_per_weight, each.divergence});
  }
  return chart;
}

}  // namespace

ecq::result<void> compare(const compare_arguments& given) {
  ECQ_TRY(original, open_model(given, given.path, ecq::activation_type::fp32));
  ECQ_TRY(tokens, tokens_of(given, given.path, original.config()));
  ECQ_CHECK(tool::naming(given.file, llama::text_windows::of(original.config(), tokens, given.how)));
  if (!given.bits.empty()) {
    ECQ_CHECK(check_plain(given.path));
    ECQ_TRY(files, ecq::model_files::of(given.path));
    ECQ_CHECK(ecq::check_apart(files.folder, given.folder));
    ECQ_CHECK(sensitivities_of(given.sensitivities));
    std::error_code failed;
    std::filesystem::create_directories(given.folder, failed);
    if (failed) return ecq::error(ecq::errc::io_error, ecq::detail::quoted(given.folder), ": ", failed.message());
  }
  std::optional<ecq::output_file> picture;
  if (!given.picture.empty()) {
    std::vector<std::string> inputs = given.coded;
    inputs.push_back(given.path);
    std::vector<std::filesystem::path> others = given.other_inputs();
    others.emplace_back(given.file);
    ECQ_TRY(opened, open_output(inputs, given.picture, others));
    picture.emplace(std::move(opened));
  }
  comparison work(given, original, tokens);
  ECQ_TRY(bits, bits_per_weight(given, given.path));
  for (const std::string& path : given.coded) ECQ_CHECK(work.add(path));
  model_maker maker(given);
  for (const std::string& method : given.methods) {
    for (const double at : given.bits) {
      ECQ_TRY(made, maker.make(method, at));
      ECQ_CHECK(work.add(made, method));
    }
  }
  const llama::prediction_difference& seen = work.seen();
  if (picture) ECQ_CHECK(tool::commit(*picture, tool::to_svg(as_plot(given, work.rows(), seen.predictions))));
  std::vector<row> rows{{.model = given.path, .bits_per_weight = bits, .loss = seen.original_loss}};
  rows.insert(rows.end(), work.rows().begin(), work.rows().end());
  if (given.common.as_json) {
    tool::json list = tool::json::array();
    for (const row& each : rows) list.push_back(as_json(each));
    tool::print({{"model", given.path},
                 {"mode", given.mode},
                 {"activations", given.activations},
                 {"file", given.file},
                 {"windows", seen.windows},
                 {"window", given.how.window},
                 {"predictions", seen.predictions},
                 {"rows", list}});
    return {};
  }
  std::cout << as_table(rows);
  if (given.common.quiet) return {};
  std::cout
      << "\nloss: nats per token over " << tool::grouped(seen.predictions) << " predictions in " << seen.windows
      << " windows. difference: change of the loss;\n"
         "KL: Kullback-Leibler divergence of the predictions, mean and largest of the windows; both relative to the\n"
         "first model, in thousandths of a nat per token. SQNR: unbiased, over the matrices of the layers: each row\n"
         "q of coded weights is first multiplied by <w,w> / <w,q>.\n";
  if (picture) std::cout << "picture: " << tool::printable(given.picture) << '\n';
  return {};
}

}  // namespace llama_tool
