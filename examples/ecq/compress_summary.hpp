#pragma once
/// \file
/// Summary of a compressed checkpoint, as text and as JSON.

#include <cstddef>
#include <string>

#include "command.hpp"
#include "compress_arguments.hpp"
#include "ecq/checkpoint/compress_options.hpp"
#include "ecq/quantize/rate_correction.hpp"
#include "tensor_rows.hpp"
#include "text.hpp"

namespace tool {

/// Returns lines about tensors that were not compressed like the others.
inline std::string about_exceptions(const ecq::compress_report& report, bool folder) {
  std::string text;
  if (report.by_fallback != 0) {
    text += "  fallback         " + std::to_string(report.by_fallback) + " tensors at 8 bits before coding\n";
  }
  if (report.unpacked != 0) {
    text += "  unpacked         " + std::to_string(report.unpacked) +
            " quantised tensors were multiplied by their scales, which are dropped" +
            (folder ? "" : ": remove quantization_config from config.json") + "\n";
  }
  if (report.unpacked != 0 && report.left_quantized != 0) {
    text += "  still quantised  " + std::to_string(report.left_quantized) +
            " tensors with scales, which readers find by quantization_config; " +
            (folder ? "config.json no longer has it" : "the others no longer fit it") + "\n";
  }
  for (const std::string& pattern : report.unmatched) {
    text += "  no match         for the pattern '" + printable(pattern) + "'\n";
  }
  for (const std::string& pattern : report.without_effect) {
    text += "  no effect        of the pattern '" + printable(pattern) + "': all that it matches stays as it is\n";
  }
  if (report.exact != 0) {
    text += "  exact weights    " + grouped(report.exact) + " at 96 bits each\n";
  }
  if (report.of_quantized != 0) {
    text += "  left as they are " + std::to_string(report.of_quantized) +
            " tensors named like parts of quantised weights; --lossless makes them smaller\n";
  }
  if (report.non_finite != 0) {
    text += "  left as they are " + std::to_string(report.non_finite) + " tensors with NaN or infinity\n";
  }
  return text;
}

inline double megabytes_per_second(const ecq::compress_report& report, double seconds) {
  return static_cast<double>(report.input_bytes) / 1e6 / seconds;
}

/// Whether all codes are those of AbsMax because it takes fewer bits than were asked for.
inline bool is_below_target(const compress_arguments& given, const ecq::compress_report& report) {
  return !given.lossless && !given.is_entrollm() && !given.lambda_given && report.weights != 0 && report.lambda == 0 &&
         report.bits_per_weight < given.bits - ecq::rate_correction::tolerance;
}

/// Whether all codes share one code, and the report knows what it costs: parts of a model do not.
inline bool has_joint_entropy(const compress_arguments& given, const ecq::compress_report& report) {
  return given.is_entrollm() && report.joint_entropy > 0;
}

/// Returns a few lines about all tensors together; `tensors` is their number.
inline std::string summary(const compress_arguments& given, const ecq::compress_report& report, std::size_t tensors,
                           double seconds) {
  const double share = 100 * static_cast<double>(report.file_bytes) / static_cast<double>(report.input_bytes);
  std::string text = printable(given.output) + "\n  weights          " + grouped(report.weights) + " in " +
                     std::to_string(tensors) + " tensors of " + std::to_string(report.blocks) + " blocks; " +
                     std::to_string(report.passed_through) + " tensors passed through\n" +
                     about_exceptions(report, is_for_folder(given.input, given.output)) + "  bits per weight  " +
                     decimal(report.bits_per_weight, 3) + " including scales, excluding the file's header (entropy " +
                     decimal(report.entropy, 3);
  if (has_joint_entropy(given, report)) text += "; of all codes together " + decimal(report.joint_entropy, 3);
  text += ")\n  file             " + bytes(report.input_bytes) + " -> " + bytes(report.file_bytes) + " (" +
          decimal(share, 1) + " %)\n";
  if (!given.lossless && !given.is_entrollm()) {
    text += "  lambda           " + significant(report.lambda, 4);
    if (is_below_target(given, report)) {
      text += ", which is AbsMax: codes cannot be any finer";
      if (given.trellis_bits()) text += " on a trellis; those of --method entquant can, where few weights stand out";
    }
    text += '\n';
  }
  return text + "  time             " + duration(seconds) + " (" + decimal(megabytes_per_second(report, seconds), 0) +
         " MB/s)\n";
}

inline json summary_json(const compress_arguments& given, const ecq::compress_report& report, double seconds) {
  json totals = totals_of(report);
  totals["input_bytes"] = report.input_bytes;
  totals["lambda"] = report.lambda;
  totals["below_target"] = is_below_target(given, report);
  totals["unpacked"] = report.unpacked;
  totals["left_quantized"] = report.left_quantized;
  totals["by_fallback"] = report.by_fallback;
  totals["exact"] = report.exact;
  totals["of_quantized"] = report.of_quantized;
  totals["non_finite"] = report.non_finite;
  totals["unmatched"] = report.unmatched;
  totals["without_effect"] = report.without_effect;
  if (has_joint_entropy(given, report)) totals["joint_entropy"] = report.joint_entropy;
  totals["seconds"] = seconds;
  totals["megabytes_per_second"] = megabytes_per_second(report, seconds);
  return {{"input", given.input},
          {"output", given.output},
          {"method", given.lossless ? "lossless" : given.method},
          {"format", given.lossless ? "lossless" : given.format},
          {"coder", given.coder},
          {"totals", totals}};
}

}  // namespace tool
