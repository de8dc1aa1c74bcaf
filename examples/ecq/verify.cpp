// ecq verify: checks that the bytes are those that were written, and measures the error against the original weights.

#include "ecq/checkpoint/verify_checkpoint.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "command.hpp"
#include "progress_bar.hpp"
#include "text.hpp"

namespace {

struct verify_options : tool::common_options {
  std::string input, original;
};

void describe(tool::json& row, const ecq::weight_error& error) {
  row["relative_l1"] = error.relative_l1();
  row["sqnr_db"] = error.sqnr_db();
  row["max_error"] = error.largest_error;
}

tool::json answer(const verify_options& given, const ecq::verify_report& report) {
  tool::json result{{"input", given.input}, {"checksums", report.checksums}};
  if (!report.compared) return result;
  result["against"] = given.original;
  tool::json& tensors = result["tensors"] = tool::json::array();
  for (const ecq::tensor_verification& tensor : report.tensors) {
    tool::json row{{"name", tensor.name},
                   {"weights", tensor.weights},
                   {"compressed", tensor.compressed},
                   {"lossless", tensor.lossless},
                   {"identical", tensor.identical}};
    describe(row, tensor.error);
    tensors.push_back(std::move(row));
  }
  result["identical"] = report.identical();
  result["same_file"] = report.same_file;
  result["totals"] = {{"weights", report.total.count}};
  describe(result["totals"], report.total);
  return result;
}

tool::table distortions(const ecq::verify_report& report) {
  tool::table rows({"tensor", "weights", "relative L1", "SQNR dB", "max error"}, 1);
  const auto add = [&](const std::string& name, std::uint64_t weights, const ecq::weight_error& error) {
    rows.add({name, tool::grouped(weights), tool::decimal(error.relative_l1(), 4), tool::decimal(error.sqnr_db(), 2),
              tool::significant(error.largest_error, 3)});
  };
  for (const ecq::tensor_verification& tensor : report.tensors) {
    if (!tensor.compressed) continue;
    if (tensor.lossless) {
      rows.add({tensor.name, tool::grouped(tensor.weights), "identical", "", ""});
    } else {
      add(tensor.name, tensor.weights, tensor.error);
    }
  }
  rows.rule();
  if (report.identical()) {
    rows.add({"all tensors", "", "identical", "", ""});
  } else {
    add("compressed weights", report.total.count, report.total);
  }
  return rows;
}

ecq::result<void> run(const verify_options& given) {
  tool::progress_bar bar(given.quiet);
  std::optional<std::filesystem::path> original;
  if (!given.original.empty()) original = given.original;
  ECQ_TRY(report,
          tool::naming(given.input, ecq::verify_checkpoint(given.backend(), given.input, original, bar.callback())));
  bar.clear();
  if (given.as_json) {
    tool::print(answer(given, report));
  } else if (!given.quiet) {
    if (report.compared) std::cout << distortions(report) << '\n';
    std::cout << tool::printable(given.input) << ": " << report.checksums << " checksums match";
    if (report.compared) {
      const auto compressed = std::count_if(report.tensors.begin(), report.tensors.end(),
                                            [](const ecq::tensor_verification& tensor) { return tensor.compressed; });
      std::cout << "; " << compressed << " tensors compressed, the other "
                << report.tensors.size() - static_cast<std::size_t>(compressed) << " equal to the original"
                << (report.same_file ? "; the same file, byte for byte" : "");
    }
    std::cout << '\n';
  }
  return {};
}

}  // namespace

void tool::add_verify(CLI::App& app, action& chosen) {
  auto given = std::make_shared<verify_options>();
  CLI::App* command =
      app.add_subcommand("verify", "Verify all checksums, and measure the distortion against the original");
  command->add_option("IN", given->input, "Compressed checkpoint")->required();
  command
      ->add_option("--against", given->original,
                   "Original checkpoint: measure the distortion of each tensor as 'ecq decompress' would write it. "
                   "NaN and infinity in the original are errors")
      ->check(not_empty());
  add_common_options(*command, *given);
  command->final_callback([given, &chosen] { chosen = [given] { return run(*given); }; });
}
