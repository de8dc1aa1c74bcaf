// ecq-llama compress: compresses with error feedback, from the inputs that layers see in texts of the model itself.

#include "compress.hpp"

#include <chrono>
#include <iostream>

#include "../../ecq/text.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/quantize/rate_correction.hpp"
#include "feedback.hpp"

namespace llama_tool {

ecq::result<void> compress(const compress_arguments& given) {
  const auto start = std::chrono::steady_clock::now();
  // Checked before the model writes texts, which takes a while.
  ECQ_CHECK(check_plain(given.path));
  ECQ_TRY(files, ecq::model_files::with_others(given.path));
  ECQ_CHECK(ecq::check_apart(files.folder, given.output));
  ECQ_CHECK(ecq::check_output_folder(given.output, files.names(), {}));
  ECQ_TRY(model, feedback::open(given));
  ECQ_TRY(report, model->compress(given.output, given.bits, given.states));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (given.common.as_json) {
    tool::print({{"input", given.path},
                 {"output", given.output},
                 {"bits_per_weight", report.bits_per_weight},
                 {"weights", report.weights},
                 {"entropy", report.entropy},
                 {"lambda", report.lambda},
                 {"file_bytes", report.file_bytes},
                 {"tokens", model->tokens()},
                 {"seconds", seconds}});
  } else if (!given.common.quiet) {
    std::cout << tool::printable(given.output) << ": " << tool::grouped(report.weights) << " weights at "
              << tool::decimal(report.bits_per_weight, 3) << " bits, calibrated on " << tool::grouped(model->tokens())
              << " tokens that the model wrote itself, in " << tool::duration(seconds) << '\n';
    if (report.bits_per_weight < given.bits - ecq::rate_correction::tolerance) {
      std::cout << "8-bit integers cannot be any finer; " << tool::decimal(given.bits, 2) << " bits were requested.\n";
    }
  }
  return {};
}

}  // namespace llama_tool
