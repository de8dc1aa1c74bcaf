// ecq compress: a checkpoint to N bits a weight, to unsigned integers, or without loss.

#include "ecq/checkpoint/compress_checkpoint.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.hpp"
#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/entropy/tans/tans.hpp"
#include "ecq/stream/chunk_index.hpp"
#include "progress_bar.hpp"
#include "tensor_rows.hpp"
#include "text.hpp"

namespace {

struct options : tool::common_options {
  std::string input, output, part = "0/1", method = "entquant", format = "fp8_e4m3", coder = "rans", goal = "size";
  unsigned width = 8;
  double bits = 3, lambda = 0;
  bool lambda_given = false, keep_non_finite = false, per_tensor = false, lossless = false, pairs = false;
  std::uint64_t chunk = 0;
  ecq::tensor_selection selection;
  std::vector<std::string> fallback;
};

/// The names of entropy coders on the command line.
constexpr std::array<std::pair<std::string_view, std::optional<ecq::coder_id>>, 4> coders{
    {{ecq::rans::name, ecq::rans::id},
     {ecq::huffman::name, ecq::huffman::id},
     {ecq::tans::name, ecq::tans::id},
     {"auto", std::nullopt}}};

/// The names of goals on the command line.
constexpr std::array<std::pair<std::string_view, ecq::stream_goal>, 3> goals{
    {{"size", ecq::stream_goal::size}, {"cpu", ecq::stream_goal::cpu}, {"gpu", ecq::stream_goal::gpu}}};

/// Reads "i/n"; false unless i < n.
bool read_part(const std::string& text, ecq::folder_part& part) {
  const std::size_t slash = text.find('/');
  return slash != std::string::npos && CLI::detail::lexical_cast(text.substr(0, slash), part.index) &&
         CLI::detail::lexical_cast(text.substr(slash + 1), part.count) && part.index < part.count;
}

/// What became of tensors that were not compressed like the others.
std::string about_exceptions(const ecq::compress_report& report, bool folder) {
  std::string text;
  if (report.by_fallback != 0) {
    text += "  fallback         " + std::to_string(report.by_fallback) + " tensors at 8 bits before coding\n";
  }
  if (report.unpacked != 0) {
    text += "  unpacked         " + std::to_string(report.unpacked) +
            " quantised tensors were multiplied by their scales, which are dropped" +
            (folder ? "" : ": remove quantization_config from config.json") + "\n";
  }
  if (report.of_quantized != 0) {
    text += "  left as they are " + std::to_string(report.of_quantized) +
            " tensors of weights that are quantised already; --lossless makes them smaller\n";
  }
  return text;
}

ecq::result<void> run(const options& given) {
  const bool entrollm = given.method == "entrollm";
  const ecq::dtype format = *ecq::dtype_from_string(given.format);
  ecq::compress_options how;
  if (given.lossless) {
    how.method = ecq::lossless_weights{.pairs = given.pairs};
  } else if (entrollm) {
    how.method = {format, ecq::entrollm{}};
  } else if (given.lambda_given) {
    how.method = {format, ecq::entquant{.lambda = given.lambda}};
  } else {
    how.method = {format, ecq::entquant{.target_bits = given.bits, .each_matrix = given.per_tensor}};
  }
  how.coder =
      std::find_if(coders.begin(), coders.end(), [&](const auto& coder) { return coder.first == given.coder; })->second;
  how.goal =
      std::find_if(goals.begin(), goals.end(), [&](const auto& goal) { return goal.first == given.goal; })->second;
  how.selection = given.selection;
  how.fallback_names = given.fallback;
  if (!given.lossless && !entrollm) how.fallback = {format, ecq::entquant{.lambda = 0.0}};
  how.chunk_bits = given.chunk == 0 ? 0U : static_cast<unsigned>(std::countr_zero(given.chunk));
  how.keep_non_finite = given.keep_non_finite;

  read_part(given.part, how.part);
  const bool for_folder = tool::is_for_folder(given.input, given.output);
  if (how.part.count > 1 && !for_folder) {
    return ecq::error(ecq::errc::invalid_argument, "--part is for folders that become folders");
  }

  const tool::stopwatch clock;
  tool::progress_bar bar(given.quiet);
  const auto compress = for_folder ? ecq::compress_folder : ecq::compress_checkpoint;
  ECQ_TRY(report, tool::naming(given.input, compress(given.backend(), given.input, given.output, how, bar.callback())));
  bar.clear();
  const double seconds = clock.seconds();
  const double megabytes_per_second = static_cast<double>(report.input_bytes) / 1e6 / seconds;

  if (given.as_json) {
    tool::json totals = tool::totals_of(report);
    totals["input_bytes"] = report.input_bytes;
    totals["lambda"] = report.lambda;
    totals["unpacked"] = report.unpacked;
    totals["by_fallback"] = report.by_fallback;
    totals["of_quantized"] = report.of_quantized;
    if (entrollm) totals["joint_entropy"] = report.joint_entropy;
    totals["seconds"] = seconds;
    totals["megabytes_per_second"] = megabytes_per_second;
    tool::print({{"input", given.input},
                 {"output", given.output},
                 {"method", given.lossless ? "lossless" : given.method},
                 {"format", given.lossless ? "lossless" : given.format},
                 {"coder", given.coder},
                 {"tensors", tool::tensor_rows(report.tensors)},
                 {"totals", totals}});
  } else if (!given.quiet) {
    std::cout << tool::printable(given.output) << '\n'
              << "  weights          " << tool::grouped(report.weights) << " in " << report.tensors.size()
              << " tensors of " << report.blocks << " blocks; " << report.passed_through << " tensors passed through\n"
              << about_exceptions(report, for_folder) << "  bits per weight  "
              << tool::decimal(report.bits_per_weight, 3) << " with scales, without the file's header (entropy "
              << tool::decimal(report.entropy, 3)
              << (entrollm ? "; of all codes together " + tool::decimal(report.joint_entropy, 3) : "") << ")\n"
              << "  file             " << tool::bytes(report.input_bytes) << " -> " << tool::bytes(report.file_bytes)
              << " ("
              << tool::decimal(100 * static_cast<double>(report.file_bytes) / static_cast<double>(report.input_bytes),
                               1)
              << " %)\n"
              << (given.lossless || entrollm ? "" : "  lambda           " + tool::significant(report.lambda, 4) + '\n')
              << "  time             " << tool::duration(seconds) << " (" << tool::decimal(megabytes_per_second, 0)
              << " MB/s)\n";
  }
  return {};
}

std::string regular_expression(const std::string& text) {
  try {
    const std::regex pattern(text, std::regex::ECMAScript);
  } catch (const std::regex_error& wrong) {
    return text + ": " + wrong.what();
  }
  return {};
}

std::string chunk_size(const std::string& text) {
  std::uint64_t symbols = 0;
  if (CLI::detail::lexical_cast(text, symbols) &&
      (symbols == 0 ||
       (std::has_single_bit(symbols) && symbols >> ecq::min_chunk_bits != 0 && symbols >> ecq::max_chunk_bits <= 1))) {
    return {};
  }
  return text + " is not a power of two from 2^" + std::to_string(ecq::min_chunk_bits) + " to 2^" +
         std::to_string(ecq::max_chunk_bits);
}

CLI::Option* add_format(CLI::App& command, options& given) {
  return command.add_option("--format", given.format, "Number format of the codes")
      ->check(CLI::IsMember({"fp8_e4m3", "fp8_e5m2", "int8"}))
      ->capture_default_str();
}

/// The options that say which tensors are compressed. Returns that of the fallback.
CLI::Option* add_choice(CLI::App& command, options& given) {
  command
      .add_option("--include", given.selection.include,
                  "Compress tensors of such names (* and ?) even if they are embeddings; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--exclude", given.selection.exclude,
                  "Leave tensors of such names as they are; wins over --include; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--block-pattern", given.selection.block_pattern,
                  "Regular expression; what it matches in tensors' names is the block whose stream they share")
      ->check(regular_expression)
      ->capture_default_str();
  return command
      .add_option(
          "--fallback", given.fallback,
          "Keep selected tensors of such names at 8 bits (AbsMax); --bits is met by all others; may be repeated")
      ->allow_extra_args(false);
}

ecq::result<void> run_lambda(const options& given) {
  const ecq::dtype format = *ecq::dtype_from_string(given.format);
  ecq::compress_options how;
  how.method = {format, ecq::entquant{.target_bits = given.bits}};
  how.selection = given.selection;
  how.fallback_names = given.fallback;
  tool::progress_bar bar(given.quiet);
  ECQ_TRY(lambda, tool::naming(given.input, ecq::find_lambda_of(given.backend(), given.input, how, bar.callback())));
  bar.clear();
  if (given.as_json) {
    tool::print({{"input", given.input}, {"bits", given.bits}, {"format", given.format}, {"lambda", lambda}});
  } else {
    std::cout << tool::significant(lambda, 12) << '\n';
  }
  return {};
}

std::string part_of(const std::string& text) {
  ecq::folder_part part;
  return read_part(text, part) ? std::string() : text + " is not a part such as 0/4, 1/4, 2/4, 3/4";
}

}  // namespace

void tool::add_compress(CLI::App& app, action& chosen) {
  auto given = std::make_shared<options>();
  CLI::App* command = app.add_subcommand("compress", "Quantise and entropy-code the weights of a checkpoint");
  command->add_option("IN", given->input, "model.safetensors, or the index or the folder of a sharded model")
      ->required();
  command
      ->add_option(
          "-o,--output", given->output,
          "Compressed checkpoint; replaced once the new one is whole. Without .safetensors at its end, the output of "
          "a folder or an index is a folder: a container for each file, all other files copied")
      ->check(seekable_name())
      ->required();
  CLI::Option* method =
      command
          ->add_option("--method", given->method,
                       "entquant = scales chosen for few bits; entrollm = unsigned integers on one grid a tensor, one "
                       "code for the whole model")
          ->check(CLI::IsMember({"entquant", "entrollm"}))
          ->capture_default_str();
  CLI::Option* width = command->add_option("--width", given->width, "With entrollm: bits of an integer before coding")
                           ->check(CLI::IsMember({8U, 4U}))
                           ->capture_default_str();
  CLI::Option* bits =
      command
          ->add_option(
              "--bits", given->bits,
              "Bits per weight, 1.3 to 6.5; streams count with all that they hold, and so do scales, but not the "
              "file's JSON header; one lambda is found that meets them")
          ->check(number_between(1.3, 6.5))
          ->capture_default_str();
  CLI::Option* lambda = command
                            ->add_option("--lambda", given->lambda,
                                         "Weight of the rate against the distortion, instead of --bits; 0 = AbsMax")
                            ->check(number_between(0, 1e6))
                            ->excludes(bits);
  CLI::Option* lossless =
      command
          ->add_flag("--lossless", given->lossless,
                     "Keep every bit: code the exponents of weights, embeddings included, and the bytes of all else")
          ->excludes(bits)
          ->excludes(lambda)
          ->excludes(method);
  command
      ->add_flag(
          "--pairs", given->pairs,
          "With --lossless: code exponents two at a time; decodes in half the steps, and Huffman codes get smaller")
      ->needs(lossless);
  std::vector<std::string> coder_names;
  for (const auto& coder : coders) coder_names.emplace_back(coder.first);
  CLI::Option* coder =
      command
          ->add_option("--coder", given->coder,
                       "Entropy coder; auto = in each block whichever is smallest, with entrollm in the whole model; "
                       "rans if not given, with entrollm huffman")
          ->check(CLI::IsMember(coder_names));
  std::vector<std::string> goal_names;
  for (const auto& goal : goals) goal_names.emplace_back(goal.first);
  command
      ->add_option(
          "--for", given->goal,
          "What codes are made for: size = fewest bytes; cpu, gpu = decoding there, two codes a symbol wherever "
          "that takes at most 0.1 bit a weight more")
      ->check(CLI::IsMember(goal_names))
      ->capture_default_str();
  CLI::Option* format = add_format(*command, *given)->excludes(lossless);
  add_choice(*command, *given)->excludes(lossless);
  CLI::Option* per_tensor =
      command->add_flag("--per-tensor", given->per_tensor, "Meet --bits in every tensor, by a lambda of its own each")
          ->excludes(lambda)
          ->excludes(lossless);
  command
      ->add_option("--part", given->part,
                   "Of a folder, compress files i, i + n, i + 2n ... alone: i/n, i from 0. Needs --lambda (see 'ecq "
                   "lambda') or a method without a rate. All parts together are the whole folder")
      ->check(part_of);
  command->add_option("--chunk", given->chunk, "Symbols a chunk, a power of two; 0 = by the length of the stream")
      ->check(chunk_size)
      ->capture_default_str();
  command->add_flag("--keep-non-finite", given->keep_non_finite,
                    "Pass tensors with NaN or infinity through instead of refusing them");
  add_common_options(*command, *given);
  command->final_callback([=, &chosen] {
    given->lambda_given = lambda->count() != 0;
    if (given->method == "entrollm") {
      for (const CLI::Option* other : {bits, lambda, format, per_tensor}) {
        if (other->count() != 0) throw CLI::ExcludesError("--method entrollm", other->get_name());
      }
      given->format = given->width == 4 ? "uint4" : "uint8";
      if (coder->count() == 0) given->coder = "huffman";
    } else if (width->count() != 0) {
      throw CLI::RequiresError("--width", "--method entrollm");
    }
    chosen = [given] { return run(*given); };
  });
}

void tool::add_lambda(CLI::App& app, action& chosen) {
  auto given = std::make_shared<options>();
  CLI::App* command = app.add_subcommand("lambda", "Find the lambda of a rate, for parts of a folder that share it");
  command->add_option("IN", given->input, "model.safetensors, or the index or the folder of a sharded model")
      ->required();
  command->add_option("--bits", given->bits, "Bits per weight, 1.3 to 6.5, all overhead counted")
      ->check(number_between(1.3, 6.5))
      ->capture_default_str();
  add_format(*command, *given);
  add_choice(*command, *given);
  add_common_options(*command, *given);
  command->final_callback([given, &chosen] { chosen = [given] { return run_lambda(*given); }; });
}
