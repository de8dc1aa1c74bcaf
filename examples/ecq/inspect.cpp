// ecq inspect: shows the contents of a checkpoint and their rate; with --exponents, the cost of its exponents.

#include "ecq/checkpoint/inspect_checkpoint.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "ecq/checkpoint/inspect_exponents.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/io/output_file.hpp"
#include "plot_svg.hpp"
#include "progress_bar.hpp"
#include "tensor_rows.hpp"
#include "text.hpp"

namespace {

struct inspect_options : tool::common_options {
  std::string input, picture;
  bool exponents = false;
  bool details = false;
};

tool::json as_json(const ecq::exponent_row& row) {
  const ecq::exponent_statistics& of = row.exponents;
  const ecq::entropy_bounds bounds = ecq::stated_entropy_bounds(of.stable_alpha);
  return {{"name", row.name},
          {"block", row.block},
          {"format", row.format},
          {"weights", of.weights},
          {"zeros", of.zeros},
          {"non_finite", of.non_finite},
          {"exponent_entropy", of.entropy},
          {"lossless_bits", of.lossless_bits},
          {"fp8_exponent_entropy", of.scaled_entropy},
          {"rotated_fp8_exponent_entropy", of.rotated_entropy},
          {"stable_alpha", of.stable_alpha},
          {"stated_bounds", {bounds.lower, bounds.upper}},
          {"fitted_alpha", of.fitted.alpha},
          {"fitted_centre", of.fitted.centre},
          {"fitted_entropy", of.fitted.entropy()}};
}

tool::json as_json(const std::vector<ecq::exponent_row>& rows) {
  tool::json list = tool::json::array();
  for (const ecq::exponent_row& row : rows) list.push_back(as_json(row));
  return list;
}

tool::table as_table(const inspect_options& given, const ecq::exponent_report& report) {
  tool::table shown({given.details ? "tensor" : "block", "format", "weights", "exponents", "bits/weight", "alpha",
                     "stated bounds", "fitted law", "in FP8", "rotated"},
                    2);
  const auto add = [&](const std::string& name, const ecq::exponent_row& row) {
    const ecq::exponent_statistics& of = row.exponents;
    const ecq::entropy_bounds bounds = ecq::stated_entropy_bounds(of.stable_alpha);
    shown.add({name, row.format, tool::grouped(of.weights), tool::decimal(of.entropy, 3),
               tool::decimal(of.lossless_bits, 3), tool::decimal(of.stable_alpha, 2),
               tool::decimal(bounds.lower, 2) + " - " + tool::decimal(bounds.upper, 2),
               tool::decimal(of.fitted.entropy(), 3), tool::decimal(of.scaled_entropy, 3),
               tool::decimal(of.rotated_entropy, 3)});
  };
  for (const ecq::exponent_row& row : given.details ? report.tensors : report.blocks) add(row.name, row);
  shown.rule();
  add("all", report.total);
  return shown;
}

tool::plot as_plot(const inspect_options& given, const ecq::exponent_report& report) {
  tool::plot chart;
  chart.title = "Entropy of the exponents of weights";
  chart.subtitle = tool::short_name(given.input) + ": " + tool::grouped(report.total.exponents.weights) +
                   " weights in " + std::to_string(report.tensors.size()) + " tensors; FP8: each row scaled to 448";
  chart.x_label = "block, in the order of the checkpoint";
  chart.y_label = "bits an exponent (fewer is better)";
  chart.series = {{"as they are", {}}, {"in FP8", {}}, {"FP8, rotated", {}}, {"fitted law", {}}};
  for (std::size_t index = 0; index < report.blocks.size(); ++index) {
    const ecq::exponent_statistics& of = report.blocks[index].exponents;
    const double bits[] = {of.entropy, of.scaled_entropy, of.rotated_entropy, of.fitted.entropy()};
    for (std::size_t series = 0; series < std::size(bits); ++series) {
      chart.series[series].points.push_back({static_cast<double>(index), bits[series]});
    }
  }
  return chart;
}

ecq::result<void> run_exponents(const inspect_options& given) {
  std::optional<ecq::output_file> picture;
  {
    ECQ_TRY(files, ecq::model_files::of(given.input));
    std::vector<std::filesystem::path> inputs;
    for (const auto& name : files.names()) inputs.push_back(files.folder / name);
    ECQ_TRY(opened, tool::open_picture(given.picture, inputs));
    picture = std::move(opened);
  }
  tool::progress_bar bar(given.quiet);
  ECQ_TRY(report, tool::naming(given.input, ecq::inspect_exponents(given.backend(), given.input, bar.callback())));
  bar.clear();
  if (picture) ECQ_CHECK(tool::commit(*picture, tool::to_svg(as_plot(given, report))));
  if (given.as_json) {
    tool::print({{"input", given.input},
                 {"container", report.container},
                 {"tensors", as_json(report.tensors)},
                 {"blocks", as_json(report.blocks)},
                 {"total", as_json(report.total)}});
    return {};
  }
  std::cout << as_table(given, report);
  if (given.quiet) return {};
  std::cout
      << "\nBits per exponent: exponents, as they are; fitted law, coded by the two-sided geometric law fitted to\n"
         "them; in FP8, as FP8 E4M3 with each row scaled; rotated, the same after a Hadamard transform. bits/weight\n"
         "includes sign and mantissa. alpha: index of the stable law with this spread of exponents; stated bounds:\n"
         "ECF8's for that law.\n";
  if (picture) std::cout << "picture: " << tool::printable(given.picture) << '\n';
  return {};
}

ecq::result<void> run(const inspect_options& given) {
  if (given.exponents) return run_exponents(given);
  tool::progress_bar bar(given.quiet);
  ECQ_TRY(report, tool::naming(given.input, ecq::inspect_checkpoint(given.backend(), given.input, bar.callback())));
  bar.clear();
  if (given.as_json) {
    tool::json metadata = tool::json::object();
    for (const auto& [key, value] : report.metadata) metadata[key] = value;
    tool::print({{"input", given.input},
                 {"container", report.container},
                 {"tool", report.tool},
                 {"settings", report.settings},
                 {"metadata", metadata},
                 {"tensors", tool::tensor_rows(report.tensors)},
                 {"totals", tool::totals_of(report)}});
    return {};
  }
  std::cout << tool::tensor_table(report.tensors) << '\n';
  if (report.container) {
    std::cout << tool::grouped(report.weights) << " weights compressed to " << tool::decimal(report.bits_per_weight, 3)
              << " bits each (entropy " << tool::decimal(report.entropy, 3) << ") in " << report.blocks << " blocks; "
              << report.passed_through << " tensors left as they were; ";
    if (!report.tool.empty()) std::cout << "written by " << tool::printable(report.tool) << "; ";
  } else {
    std::cout << report.passed_through << " tensors, none compressed; ";
  }
  std::cout << "file " << tool::bytes(report.file_bytes) << '\n';
  return {};
}

}  // namespace

void tool::add_inspect(CLI::App& app, action& chosen) {
  auto given = std::make_shared<inspect_options>();
  CLI::App* command = app.add_subcommand("inspect", "List the tensors of a compressed or plain checkpoint");
  command->add_option("IN", given->input, "Checkpoint")->required();
  CLI::Option* exponents =
      command->add_flag("--exponents", given->exponents,
                        "Show the entropy of the weights' exponents by block, which bounds lossless coding");
  command->add_option("--svg", given->picture, "Write a plot of the exponents' entropy by block to this file")
      ->check(seekable_name())
      ->needs(exponents);
  command
      ->add_flag("--details", given->details,
                 "Print exponents by tensor instead of by block (JSON always includes both)")
      ->needs(exponents);
  add_common_options(*command, *given);
  command->final_callback([given, &chosen] { chosen = [given] { return run(*given); }; });
}
