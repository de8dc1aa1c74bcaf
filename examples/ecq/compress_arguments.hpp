#pragma once
/// \file
/// Options for compressing a checkpoint, shared by all programs that compress one.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.hpp"
#include "ecq/checkpoint/compress_options.hpp"
#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/entropy/tans/tans.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/methods/any_method.hpp"
#include "ecq/stream/chunk_index.hpp"

namespace tool {

/// Names of trellis-coded quantisation, by ascending number of states from 4 on.
inline constexpr std::array<std::string_view, 4> trellises{"tcq4", "tcq8", "tcq16", "tcq32"};

/// Returns log2 of the number of states of the trellis; nothing for methods without a trellis.
inline std::optional<unsigned> trellis_bits_of(std::string_view method) {
  const auto found = std::find(trellises.begin(), trellises.end(), method);
  if (found == trellises.end()) return std::nullopt;
  return ecq::trellis::min_state_bits + static_cast<unsigned>(found - trellises.begin());
}

struct compress_arguments : common_options {
  std::string input, output, method = "entquant", format = "fp8_e4m3", coder = "rans", goal = "size";
  unsigned width = 8;
  double bits = 3, lambda = 0;
  bool lambda_given = false, keep_non_finite = false, per_tensor = false, lossless = false, pairs = false;
  std::uint64_t chunk = 0, max_shard_bytes = 0;
  ecq::tensor_selection selection;
  std::vector<std::string> fallback;
  std::string exact, sensitivity;
  double outliers = 0;

  bool is_entrollm() const { return method == "entrollm"; }
  std::optional<unsigned> trellis_bits() const { return trellis_bits_of(method); }

  /// Returns the method that meets `bits`.
  ecq::any_method at_bits() const {
    if (const auto states = trellis_bits()) return ecq::tcq{.state_bits = *states, .target_bits = bits};
    return {*ecq::dtype_from_string(format), ecq::entquant{.target_bits = bits, .each_matrix = per_tensor}};
  }

  ecq::any_method at_lambda() const {
    if (const auto states = trellis_bits()) return ecq::tcq{.state_bits = *states, .lambda = lambda};
    return {*ecq::dtype_from_string(format), ecq::entquant{.lambda = lambda}};
  }

  /// Sets the format of codes on a trellis, Int8, once the command line is read. Throws what CLI11 throws if `format`
  /// is given, too.
  void choose_format(const CLI::Option& format_option) {
    if (!trellis_bits()) return;
    if (format_option.count() != 0) throw CLI::ExcludesError("--method " + method, format_option.get_name());
    format = "int8";
  }

  /// Returns the options of the library. Errors: those of read_sidecars(), and options that do not fit the input and
  /// output.
  ecq::result<ecq::compress_options> to_options() const;

  /// Sets the options about single weights and tensors, and reads their files (--exact and --sensitivity).
  ecq::result<void> read_sidecars(ecq::compress_options& how) const;
};

inline ecq::result<void> compress_arguments::read_sidecars(ecq::compress_options& how) const {
  how.exact.outlier_ratio = outliers;
  if (!exact.empty()) {
    ECQ_TRY(places, ecq::read_weight_places(exact));
    how.exact.places = std::move(places);
    how.other_inputs.emplace_back(exact);
  }
  if (!sensitivity.empty()) {
    ECQ_TRY(sensitivities, ecq::read_sensitivities(sensitivity));
    if (sensitivities.empty()) {
      return ecq::error(ecq::errc::invalid_argument, ecq::detail::quoted(sensitivity), ": no sensitivities");
    }
    how.sensitivities = std::move(sensitivities);
    how.other_inputs.emplace_back(sensitivity);
  }
  return {};
}

/// Entropy coders by their names on the command line.
inline constexpr std::array<std::pair<std::string_view, std::optional<ecq::coder_id>>, 4> coders{
    {{ecq::rans::name, ecq::rans::id},
     {ecq::huffman::name, ecq::huffman::id},
     {ecq::tans::name, ecq::tans::id},
     {"auto", std::nullopt}}};

/// Goals of streams by their names on the command line.
inline constexpr std::array<std::pair<std::string_view, ecq::stream_goal>, 3> goals{
    {{"size", ecq::stream_goal::size}, {"cpu", ecq::stream_goal::cpu}, {"gpu", ecq::stream_goal::gpu}}};

inline std::string regular_expression(const std::string& text) {
  try {
    const std::regex pattern(text, std::regex::ECMAScript);
  } catch (const std::regex_error& wrong) {
    return text + ": " + wrong.what();
  }
  return {};
}

inline std::string chunk_size(const std::string& text) {
  std::uint64_t symbols = 0;
  if (CLI::detail::lexical_cast(text, symbols) &&
      (symbols == 0 ||
       (std::has_single_bit(symbols) && symbols >> ecq::min_chunk_bits != 0 && symbols >> ecq::max_chunk_bits <= 1))) {
    return {};
  }
  return text + " is not a power of two from 2^" + std::to_string(ecq::min_chunk_bits) + " to 2^" +
         std::to_string(ecq::max_chunk_bits);
}

inline CLI::Option* add_format(CLI::App& command, compress_arguments& given) {
  return command.add_option("--format", given.format, "Number format of the codes")
      ->check(CLI::IsMember({"fp8_e4m3", "fp8_e5m2", "int8"}))
      ->capture_default_str();
}

/// Adds --method with the values entquant, the trellises, and `others`.
inline CLI::Option* add_method(CLI::App& command, compress_arguments& given, const std::string& description,
                               std::vector<std::string> others = {}) {
  others.emplace_back("entquant");
  others.insert(others.end(), trellises.begin(), trellises.end());
  return command.add_option("--method", given.method, description)->check(CLI::IsMember(others))->capture_default_str();
}

/// Adds the options that choose exact weights, for methods that change weights.
inline std::array<CLI::Option*, 2> add_exact(CLI::App& command, compress_arguments& given) {
  return {
      command
          .add_option("--exact", given.exact,
                      "Keep the weights exact that this JSON file lists: {\"tensor\": [[row, column], ...], ...}. Each "
                      "takes 12 bytes. 'ecq-llama super-weights' writes such a file")
          ->check(CLI::ExistingFile),
      command
          .add_option("--outliers", given.outliers,
                      "Keep weights exact that are this many times as large as the mean of the others in their row and "
                      "in their column; 64 is usual. A tensor with more than one such weight in 16384 keeps none")
          ->check(number_between(2, 1e9))};
}

inline CLI::Option* add_sensitivity(CLI::App& command, compress_arguments& given) {
  return command
      .add_option("--sensitivity", given.sensitivity,
                  "Divide bits among tensors by how much the loss depends on them. The file is JSON, {\"tensor\": "
                  "number, ...}, as 'ecq-llama calibrate' writes it, or safetensors with tensors of the same names. An "
                  "array with a number for each row also divides bits among rows; on a trellis, rows of fewer than 256 "
                  "weights share the mean")
      ->check(CLI::ExistingFile);
}

/// Returns a validator for numbers of bytes after CLI::AsSizeValue, which reads -1 as the largest number.
inline CLI::Validator size_of_file() {
  return CLI::Validator(
      [](std::string& text) {
        std::uint64_t bytes = 0;
        const bool number = CLI::detail::lexical_cast(text, bytes);
        if (number && bytes != 0 && bytes >> 60 == 0) return std::string();
        return text + " is not a size from a byte to an exbibyte";
      },
      "", "");
}

inline void add_keep_non_finite(CLI::App& command, compress_arguments& given) {
  command.add_flag("--keep-non-finite", given.keep_non_finite,
                   "Leave tensors with NaN or infinity as they are instead of refusing them");
}

/// Adds the options that choose the tensors to be compressed. Returns the option --fallback.
inline CLI::Option* add_choice(CLI::App& command, compress_arguments& given) {
  command
      .add_option("--include", given.selection.include,
                  "Compress tensors whose names match this pattern (* and ?), even embeddings; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option(
          "--exclude", given.selection.exclude,
          "Leave tensors whose names match this pattern as they are, even if --include matches; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option(
          "--block-pattern", given.selection.block_pattern,
          "Regular expression for the part of a tensor's name that names its block; tensors of a block share a stream")
      ->check(regular_expression)
      ->capture_default_str();
  return command
      .add_option("--fallback", given.fallback,
                  "Keep selected tensors whose names match this pattern at 8 bits (AbsMax); --bits applies to all "
                  "others; may be repeated")
      ->allow_extra_args(false);
}

inline ecq::result<ecq::compress_options> compress_arguments::to_options() const {
  const ecq::dtype codes = *ecq::dtype_from_string(format);
  ecq::compress_options how;
  if (lossless) {
    how.method = ecq::lossless_weights{.pairs = pairs};
  } else if (is_entrollm()) {
    how.method = {codes, ecq::entrollm{}};
  } else {
    how.method = lambda_given ? at_lambda() : at_bits();
  }
  how.coder = std::find_if(coders.begin(), coders.end(), [&](const auto& each) { return each.first == coder; })->second;
  how.goal = std::find_if(goals.begin(), goals.end(), [&](const auto& each) { return each.first == goal; })->second;
  how.selection = selection;
  how.fallback_names = fallback;
  ECQ_CHECK(read_sidecars(how));
  if (!lossless && !is_entrollm()) how.fallback = {codes, ecq::entquant{.lambda = 0.0}};
  how.chunk_bits = chunk == 0 ? 0U : static_cast<unsigned>(std::countr_zero(chunk));
  how.keep_non_finite = keep_non_finite;
  how.max_file_bytes = max_shard_bytes;
  if (max_shard_bytes != 0 && !is_for_folder(input, output)) {
    return ecq::error(ecq::errc::invalid_argument,
                      "--max-shard-size needs a folder or index as input and a folder as output");
  }
  return how;
}

/// Declares all options. `finish` runs once the command line is read, and may throw the exceptions of CLI11.
template <class Finish>
void add_compress_options(CLI::App& app, const std::shared_ptr<compress_arguments>& given, Finish&& finish) {
  CLI::App* command = &app;
  command->add_option("IN", given->input, "model.safetensors, or the index or folder of a sharded model")->required();
  command
      ->add_option("-o,--output", given->output,
                   "Compressed checkpoint to write; an existing one is replaced only when the new one is complete. For "
                   "a folder or an index, a name without .safetensors is a folder: each file becomes a container, and "
                   "all other files are copied, except hidden ones and links to folders")
      ->check(seekable_name())
      ->required();
  CLI::Option* method = add_method(
      *command, *given,
      "entquant = scales chosen for low entropy; tcq8 = 8-bit integers on a trellis of 8 states (tcq4, tcq16, tcq32: "
      "other sizes), with less noise at the same rate, except for pruned weights, whose zeros it does not keep; "
      "entrollm = unsigned integers on one grid per tensor, with one code for the whole model",
      {"entrollm"});
  CLI::Option* width = command->add_option("--width", given->width, "With entrollm: bits per integer before coding")
                           ->check(CLI::IsMember({8U, 4U}))
                           ->capture_default_str();
  CLI::Option* bits =
      command
          ->add_option(
              "--bits", given->bits,
              "Target in bits per weight, 1.3 to 6.5, including scales and everything in the streams, but not the "
              "file's JSON header. One lambda is searched for all tensors. If AbsMax takes fewer bits, AbsMax is used")
          ->check(number_between(1.3, 6.5))
          ->capture_default_str();
  CLI::Option* lambda =
      command->add_option("--lambda", given->lambda, "Weight of rate against distortion, instead of --bits; 0 = AbsMax")
          ->check(number_between(0, 1e6))
          ->excludes(bits);
  CLI::Option* lossless = command
                              ->add_flag("--lossless", given->lossless,
                                         "Keep every bit: code the exponents of all weights, including embeddings, and "
                                         "the bytes of all other tensors")
                              ->excludes(bits)
                              ->excludes(lambda)
                              ->excludes(method);
  command
      ->add_flag(
          "--pairs", given->pairs,
          "With --lossless: code exponents in pairs, which halves the decoding steps and makes Huffman codes smaller")
      ->needs(lossless);
  std::vector<std::string> coder_names;
  for (const auto& coder : coders) coder_names.emplace_back(coder.first);
  CLI::Option* coder =
      command
          ->add_option(
              "--coder", given->coder,
              "Entropy coder. auto = the smallest for each block (with entrollm, for the whole model); for lossless "
              "FP8, coding whole bytes is tried as well. Default: rans; huffman with entrollm; tans with --for gpu")
          ->check(CLI::IsMember(coder_names));
  std::vector<std::string> goal_names;
  for (const auto& goal : goals) goal_names.emplace_back(goal.first);
  command
      ->add_option("--for", given->goal,
                   "Optimise streams for size = fewest bytes; cpu = fast decoding on CPUs, with two codes per symbol "
                   "where that costs at most 0.1 bit per weight; gpu = fast decoding on GPUs, with shorter chunks, "
                   "which cost up to 0.15 bit per weight, and with --lossless exponents in pairs")
      ->check(CLI::IsMember(goal_names))
      ->capture_default_str();
  CLI::Option* format = add_format(*command, *given)->excludes(lossless);
  add_choice(*command, *given)->excludes(lossless);
  for (CLI::Option* each : add_exact(*command, *given)) each->excludes(lossless);
  CLI::Option* sensitivity = add_sensitivity(*command, *given)->excludes(lossless);
  CLI::Option* per_tensor =
      command
          ->add_flag("--per-tensor", given->per_tensor, "Meet --bits in each tensor separately, with a lambda for each")
          ->excludes(lambda)
          ->excludes(lossless);
  per_tensor->excludes(sensitivity);
  command
      ->add_option("--max-shard-size", given->max_shard_bytes,
                   "For a folder: write an index and files of at most this size, such as 5GB, counting one byte per "
                   "weight before coding (lossless: the original size). Default: one file for each input file")
      ->transform(CLI::AsSizeValue(true))
      ->check(size_of_file());
  command
      ->add_option("--chunk", given->chunk, "Symbols per chunk, a power of two; 0 = chosen by the length of the stream")
      ->check(chunk_size)
      ->capture_default_str();
  add_keep_non_finite(*command, *given);
  add_common_options(*command, *given);
  command->final_callback([=] {
    given->lambda_given = lambda->count() != 0;
    given->choose_format(*format);
    if (given->trellis_bits() && per_tensor->count() != 0) {
      throw CLI::ExcludesError("--method " + given->method, per_tensor->get_name());
    }
    if (given->method == "entrollm") {
      for (const CLI::Option* other : {bits, lambda, format, per_tensor, sensitivity}) {
        if (other->count() != 0) throw CLI::ExcludesError("--method entrollm", other->get_name());
      }
      given->format = given->width == 4 ? "uint4" : "uint8";
      if (coder->count() == 0) given->coder = "huffman";
    } else if (width->count() != 0) {
      throw CLI::RequiresError("--width", "--method entrollm");
    } else if (given->goal == "gpu") {
      if (coder->count() == 0) given->coder = "tans";
      given->pairs = given->pairs || given->lossless;
    }
    finish();
  });
}

}  // namespace tool
