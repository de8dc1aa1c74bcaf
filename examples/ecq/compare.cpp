// ecq compare: rate and distortion of each quantisation method, measured on a checkpoint's weights.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "command.hpp"
#include "compress_arguments.hpp"
#include "ecq/analysis/code_statistics.hpp"
#include "ecq/analysis/unbiased_error.hpp"
#include "ecq/analysis/weight_error.hpp"
#include "ecq/checkpoint/quantized_tensors.hpp"
#include "ecq/checkpoint/report.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/output_file.hpp"
#include "ecq/methods/any_method.hpp"
#include "ecq/methods/pack.hpp"
#include "ecq/quantize/entrollm.hpp"
#include "ecq/quantize/hqq.hpp"
#include "ecq/quantize/nf4.hpp"
#include "ecq/quantize/rate_correction.hpp"
#include "ecq/quantize/rtn.hpp"
#include "ecq/stream/stream_encoder.hpp"
#include "plot_svg.hpp"
#include "progress_bar.hpp"
#include "text.hpp"

namespace {

const std::vector<std::string> default_methods{"entquant", "tcq8", "absmax", "rtn", "nf4", "nf4-dq", "hqq"};
const std::vector<std::string> all_methods{"entquant", "tcq4", "tcq8",   "tcq16", "tcq32",      "absmax",
                                           "rtn",      "nf4",  "nf4-dq", "hqq",   "entrollm-8", "entrollm-4"};

struct compare_options : tool::common_options {
  std::string input, tensor, picture;
  std::vector<double> bits{4, 3, 2.1};
  std::vector<std::string> methods = default_methods;
  std::uint64_t max_weights = 0;
  bool details = false;
};

/// Errors of reconstructed weights: as they are, and once each row has the gain that makes it unbiased.
struct distortion {
  ecq::weight_error plain, unbiased;

  distortion& operator+=(const distortion& other) {
    plain += other.plain;
    unbiased += other.unbiased;
    return *this;
  }
};

/// Result of a method for a tensor, or for all tensors.
struct measurement {
  std::uint64_t weights = 0;
  std::uint64_t zeros = 0;
  double bits = 0;          ///< all bits, including scales and tables
  double entropy_bits = 0;  ///< of the codes; in a total, codes that share a table count together
  ecq::histogram codes;
  distortion error;

  measurement& operator+=(const measurement& other) {
    weights += other.weights;
    zeros += other.zeros;
    bits += other.bits;
    entropy_bits += other.entropy_bits;
    codes += other.codes;
    error += other.error;
    return *this;
  }
  double per_weight(double sum) const { return weights == 0 ? 0 : sum / static_cast<double>(weights); }
};

struct row {
  std::string tensor, method;
  measurement measured;
};

/// A rate that a method does not reach with these weights.
struct missed_rate {
  std::string method;
  double target_bits = 0;
  std::string reason;
};

struct comparison_result {
  std::vector<row> rows;
  std::vector<missed_rate> missed;
};

/// A tensor or, if it is large, evenly spaced rows of it.
struct source {
  const ecq::tensor_entry* entry = nullptr;
  ecq::weights_view weights;
};

/// Tensors whose codes share a stream, as in `compress`.
using block = std::vector<source>;

/// Measures the distortion of `reconstructed`, which has the weights of all rows, one after another.
ecq::result<distortion> distortion_of(const ecq::cpu& backend, const ecq::weights_view& weights,
                                      const std::vector<float>& reconstructed) {
  const ecq::matrix_view matrix(reconstructed.data(), weights.rows(), weights.columns());
  ECQ_TRY(plain, ecq::measure_error(backend, weights, matrix));
  ECQ_TRY(unbiased, ecq::measure_unbiased_error(backend, weights, matrix));
  return distortion{plain, unbiased};
}

/// Measures a fixed-rate method, which counts its own bits.
template <ecq::baseline Method>
ecq::result<measurement> measure(const Method& method, const ecq::cpu& backend, const ecq::weights_view& weights) {
  ECQ_TRY(applied, method.apply(backend, weights));
  ECQ_TRY(error, distortion_of(backend, weights, applied.weights));
  ECQ_TRY(codes, ecq::count_codes(backend, applied.codes));
  measurement result;
  result.weights = weights.size();
  result.zeros = static_cast<std::uint64_t>(std::count(applied.weights.begin(), applied.weights.end(), 0.0F));
  result.bits = applied.bits_per_weight * static_cast<double>(weights.size());
  result.entropy_bits = ecq::entropy_of(codes) * static_cast<double>(weights.size());
  result.codes = codes;
  result.error = error;
  return result;
}

/// Decodes `codes` row by row and compares the result with the weights. `scales` has one scale per row, or a single
/// one.
template <class Format>
ecq::result<distortion> error_of(const ecq::cpu& backend, const ecq::weights_view& weights,
                                 std::span<const std::uint8_t> codes, std::span<const ecq::bf16> scales,
                                 float zero = 0) {
  std::vector<float> reconstructed(codes.size());
  const std::size_t columns = weights.columns();
  ECQ_CHECK(ecq::parallel_for(backend, weights.rows(), [&](std::size_t row) -> ecq::result<void> {
    const float scale = scales[scales.size() == 1 ? 0 : row];
    for (std::size_t at = row * columns; at < (row + 1) * columns; ++at) {
      reconstructed[at] = Format::decode(codes[at]) * scale + zero;
    }
    return {};
  }));
  return distortion_of(backend, weights, reconstructed);
}

/// Runs methods over the chosen tensors. Memory holds one tensor, or the codes of one block, at a time.
class comparison {
 public:
  comparison(const compare_options& given, const ecq::checkpoint& model, std::vector<block> blocks,
             tool::progress_bar& bar)
      : backend_(given.backend()), model_(model), blocks_(std::move(blocks)), bar_(bar) {
    for (const block& tensors : blocks_) {
      for (const source& tensor : tensors) step_.total += tensor.entry->size_bytes();
    }
  }

  /// Applies a fixed-rate method. Returns a row for each tensor, and the total ("*") last.
  template <class Method>
  ecq::result<std::vector<row>> run_fixed_rate(const std::string& name, const Method& method) {
    begin(name);
    std::vector<row> rows;
    measurement total;
    for (const block& tensors : blocks_) {
      for (const source& tensor : tensors) {
        ECQ_TRY(measured, about(tensor, measure(method, backend_, tensor.weights)));
        total += measured;
        rows.push_back({tensor.entry->name, name, std::move(measured)});
      }
    }
    rows.push_back({"*", name, total});
    return rows;
  }

  /// Like run_fixed_rate(), for a method of `compress`. Codes are actually entropy-coded: the bits are those of streams
  /// and scales.
  ecq::result<std::vector<row>> run_coded(const std::string& name, const ecq::any_method& chosen) {
    ECQ_TRY(method, chosen.get());
    std::vector<std::vector<ecq::named_weights>> matrices;
    for (const block& tensors : blocks_) {
      auto& of_block = matrices.emplace_back();
      for (const source& tensor : tensors) of_block.push_back({tensor.entry->name, tensor.weights});
    }
    const std::vector<std::span<const ecq::named_weights>> streams(matrices.begin(), matrices.end());
    ECQ_TRY(prepared, method->prepare(backend_, streams, {}));
    std::vector<row> rows;
    ECQ_CHECK(ecq::meet_rate(
        method->target_bits(), [&](const ecq::rate_correction& correction) -> ecq::result<ecq::measured_rate> {
          begin(name);
          ECQ_TRY(made, code_all(name, *prepared, correction, streams));
          rows = std::move(made);
          const measurement& total = rows.back().measured;
          return ecq::measured_rate{total.per_weight(total.bits), total.weights, prepared->lambda(correction) == 0};
        }));
    return rows;
  }

  /// Applies EntroLLM: every tensor has a grid and a stream of its own, and all share one Huffman code.
  template <class Format>
  ecq::result<std::vector<row>> run_entrollm(const std::string& name) {
    begin(name);
    ecq::histogram joint;
    std::vector<std::uint8_t> codes;
    const auto code = [&](const source& tensor) -> ecq::result<ecq::affine_grid> {
      codes.resize(tensor.weights.size());
      ECQ_TRY(grid, ecq::entrollm{}.fit<Format>(backend_, tensor.weights));
      ECQ_CHECK(ecq::entrollm{}.encode<Format>(backend_, tensor.weights, grid, codes));
      return grid;
    };
    for (const block& tensors : blocks_) {
      for (const source& tensor : tensors) {
        ECQ_CHECK(about(tensor, code(tensor)));
        ECQ_TRY(counts, ecq::count_codes(backend_, codes));
        joint += counts;
      }
    }
    begin(name);
    std::vector<row> rows;
    measurement total;
    ecq::checkpoint_report report;
    const auto measure_tensor = [&](const source& tensor) -> ecq::result<measurement> {
      ECQ_TRY(grid, code(tensor));
      ecq::packed_block packed;
      ecq::packed_matrix& matrix = packed.matrices.emplace_back();
      matrix.format = ecq::dtype_of<Format>;
      matrix.layout = ecq::entrollm{}.layout(tensor.weights.rows(), tensor.weights.columns());
      matrix.zero = grid.zero;
      matrix.scales.assign(matrix.layout.count(), grid.scale);
      ECQ_TRY(error, error_of<Format>(backend_, tensor.weights, codes, matrix.scales, matrix.zero));
      ECQ_TRY(counts, ecq::count_codes(backend_, codes));
      ECQ_TRY(stream, ecq::encode_stream<ecq::huffman>(backend_, codes, {.shared_counts = &joint}));
      packed.stream = std::move(stream);
      report.add_block({}, packed, std::span(&counts, 1));
      const ecq::tensor_report& about_it = report.tensors.back();
      const auto weights = static_cast<double>(about_it.weights);
      return measurement{.weights = about_it.weights,
                         .zeros = static_cast<std::uint64_t>(std::llround(about_it.sparsity * weights)),
                         .bits = about_it.bits_per_weight * weights,
                         .entropy_bits = about_it.entropy * weights,
                         .codes = counts,
                         .error = error};
    };
    for (const block& tensors : blocks_) {
      for (const source& tensor : tensors) {
        ECQ_TRY(measured, about(tensor, measure_tensor(tensor)));
        total += measured;
        rows.push_back({tensor.entry->name, name, std::move(measured)});
      }
    }
    total.entropy_bits = ecq::entropy_of(joint) * static_cast<double>(total.weights);
    rows.push_back({"*", name, total});
    return rows;
  }

 private:
  void begin(const std::string& name) {
    stage_ = name;
    step_.stage = stage_;
    step_.done = 0;
    bar_.update(step_);
  }

  /// Returns the `outcome` of a tensor; its error, if any, names the tensor. Counts the tensor as done.
  template <class Value>
  ecq::result<Value> about(const source& tensor, ecq::result<Value> outcome) {
    model_.release(*tensor.entry);
    step_.done += tensor.entry->size_bytes();
    step_.current = tensor.entry->name;
    bar_.update(step_);
    if (!outcome) return std::move(outcome).error().within("tensor '", tensor.entry->name, "'");
    return outcome;
  }

  ecq::result<std::vector<row>> code_all(const std::string& name, const ecq::prepared_method& method,
                                         const ecq::rate_correction& correction, ecq::matrix_streams streams) {
    std::vector<row> rows;
    measurement total;
    ecq::checkpoint_report report;
    for (std::size_t number = 0; number < blocks_.size(); ++number) {
      const std::size_t first = rows.size();
      std::vector<ecq::histogram> counts;
      const auto measure_codes = [&](std::size_t index, const ecq::packed_matrix& matrix,
                                     std::span<const std::byte> elements) -> ecq::result<void> {
        const source& tensor = blocks_[number][index];
        const std::span codes(reinterpret_cast<const std::uint8_t*>(elements.data()), elements.size());
        ECQ_TRY(error, about(tensor, ecq::visit_code_format(matrix.format, [&]<class Format>() {
                               return error_of<Format>(backend_, tensor.weights, codes, matrix.scales, matrix.zero);
                             })));
        ECQ_TRY(counted, ecq::count_codes(backend_, codes));
        counts.push_back(counted);
        rows.push_back({tensor.entry->name, name, {.zeros = counted.counts[0], .codes = counted, .error = error}});
        return {};
      };
      ECQ_TRY(packed, ecq::detail::pack_block(backend_, method, first, correction, streams[number], {},
                                              ecq::detail::encode_function_of<ecq::rans>, measure_codes));
      report.add_block({}, packed, counts);
      for (std::size_t index = first; index < rows.size(); ++index) {
        const ecq::tensor_report& share = report.tensors[index];
        measurement& measured = rows[index].measured;
        measured.weights = share.weights;
        measured.bits = share.bits_per_weight * static_cast<double>(share.weights);
        measured.entropy_bits = share.entropy * static_cast<double>(share.weights);
        total += measured;
      }
    }
    total.entropy_bits = report.entropy * static_cast<double>(total.weights);
    rows.push_back({"*", name, total});
    return rows;
  }

  ecq::cpu backend_;
  const ecq::checkpoint& model_;
  std::vector<block> blocks_;
  tool::progress_bar& bar_;
  std::string stage_;
  ecq::progress step_;
};

/// Returns every k-th row, so that about `most` weights stand for a larger tensor. 0 means all rows.
ecq::weights_view some_rows(const ecq::weights_view& all, std::uint64_t most) {
  if (most == 0) return all;
  return all.every_row((all.size() - 1) / most + 1);
}

/// Returns the tensors that `compress` would compress; with --tensor, only those of them that the option names.
ecq::result<std::vector<block>> choose(const compare_options& given, const ecq::checkpoint& model) {
  ecq::tensor_selection rules;
  if (!given.tensor.empty()) rules.include = {given.tensor};
  const auto quantized = ecq::quantized_tensors::find(model);
  std::vector<std::size_t> positions;
  std::vector<ecq::tensor_summary> summaries;
  for (std::size_t position = 0; position < model.tensors().size(); ++position) {
    const ecq::tensor_entry& entry = model.tensors()[position];
    if (!given.tensor.empty() && !ecq::glob_match(given.tensor, entry.name)) continue;
    positions.push_back(position);
    summaries.push_back({entry.name, quantized.weight_type(entry, position), entry.shape});
  }
  ECQ_TRY(selected, ecq::select_tensors(rules, summaries));
  std::vector<block> blocks;
  for (const ecq::tensor_block& chosen : selected) {
    block& tensors = blocks.emplace_back();
    for (const std::size_t index : chosen.tensors) {
      const ecq::tensor_entry& entry = model.tensors()[positions[index]];
      ECQ_TRY(weights, quantized.weights_of(entry, positions[index], model.bytes(entry)));
      tensors.push_back({&entry, some_rows(weights, given.max_weights)});
    }
  }
  if (blocks.empty()) {
    return ecq::error(ecq::errc::not_found, "'", given.input, "': no weights of two or more dimensions",
                      (given.tensor.empty() ? "" : " named '" + given.tensor + "'"));
  }
  return blocks;
}

/// Returns the rates of fixed-rate methods, in whole bits from 2 to 8: the nearest to those asked for, each once.
std::vector<int> whole_bits(const std::vector<double>& bits) {
  std::vector<int> whole;
  for (const double wanted : bits) {
    const int nearest = std::clamp(static_cast<int>(std::lround(wanted)), 2, 8);
    if (std::find(whole.begin(), whole.end(), nearest) == whole.end()) whole.push_back(nearest);
  }
  return whole;
}

/// Measures all methods. A rate out of reach is an error only if there are no other results.
ecq::result<comparison_result> measure_all(const compare_options& given, comparison& work) {
  comparison_result all;
  const auto keep = [&](ecq::result<std::vector<row>> outcome) -> ecq::result<void> {
    if (!outcome) return std::move(outcome).error();
    std::move(outcome->begin(), outcome->end(), std::back_inserter(all.rows));
    return {};
  };
  std::optional<ecq::error> why_missed;
  const auto keep_at = [&](const std::string& method, double bits, const ecq::any_method& chosen) -> ecq::result<void> {
    auto outcome = work.run_coded(method, chosen);
    if (outcome || outcome.error().code() != ecq::errc::unreachable_target) return keep(std::move(outcome));
    all.missed.push_back({method, bits, outcome.error().message()});
    why_missed = std::move(outcome).error();
    return {};
  };
  for (const std::string& method : given.methods) {
    if (method == "entquant") {
      for (const double bits : given.bits) {
        ECQ_CHECK(keep_at(method, bits, ecq::entquant{.target_bits = bits}));
      }
    } else if (const auto states = tool::trellis_bits_of(method)) {
      for (const double bits : given.bits) {
        ECQ_CHECK(keep_at(method, bits, ecq::tcq{.state_bits = *states, .target_bits = bits}));
      }
    } else if (method == "absmax") {
      ECQ_CHECK(keep(work.run_coded(method, ecq::entquant{.lambda = 0.0})));
    } else if (method == "entrollm-8") {
      ECQ_CHECK(keep(work.run_entrollm<ecq::uint8>(method)));
    } else if (method == "entrollm-4") {
      ECQ_CHECK(keep(work.run_entrollm<ecq::uint4>(method)));
    } else if (method == "nf4" || method == "nf4-dq") {
      ECQ_CHECK(keep(work.run_fixed_rate(method, ecq::nf4{.double_quantization = method == "nf4-dq"})));
    } else {
      for (const int bits : whole_bits(given.bits)) {
        ECQ_CHECK(keep(method == "rtn" ? work.run_fixed_rate(method, ecq::rtn{.bits = bits})
                                       : work.run_fixed_rate(method, ecq::hqq{.bits = bits})));
      }
    }
  }
  if (all.rows.empty() && why_missed) return *std::move(why_missed);
  return all;
}

tool::json as_json(const missed_rate& missed) {
  return {{"method", missed.method}, {"target_bits", missed.target_bits}, {"reason", missed.reason}};
}

tool::json as_json(const row& shown) {
  const measurement& of = shown.measured;
  return {{"tensor", shown.tensor},
          {"method", shown.method},
          {"bits_per_weight", of.per_weight(of.bits)},
          {"entropy", of.per_weight(of.entropy_bits)},
          {"relative_l1", of.error.plain.relative_l1()},
          {"sqnr_db", of.error.plain.sqnr_db()},
          {"unbiased_sqnr_db", of.error.unbiased.sqnr_db()},
          {"sparsity", of.per_weight(static_cast<double>(of.zeros))},
          {"unique_values", of.codes.distinct()},
          {"weights", of.weights}};
}

tool::table as_table(const compare_options& given, const std::vector<row>& rows) {
  std::vector<std::string> headings{"method",  "bits/weight", "entropy", "relative L1",
                                    "SQNR dB", "unbiased dB", "zeros",   "values"};
  if (given.details) headings.insert(headings.begin(), "tensor");
  tool::table shown(headings, given.details ? 2 : 1);
  for (const row& each : rows) {
    if (!given.details && each.tensor != "*") continue;
    const measurement& of = each.measured;
    std::vector<std::string> cells{each.method,
                                   tool::decimal(of.per_weight(of.bits), 3),
                                   tool::decimal(of.per_weight(of.entropy_bits), 3),
                                   tool::decimal(of.error.plain.relative_l1(), 4),
                                   tool::decimal(of.error.plain.sqnr_db(), 2),
                                   tool::decimal(of.error.unbiased.sqnr_db(), 2),
                                   tool::decimal(100 * of.per_weight(static_cast<double>(of.zeros)), 1) + " %",
                                   std::to_string(of.codes.distinct())};
    if (given.details) cells.insert(cells.begin(), each.tensor);
    shown.add(std::move(cells));
  }
  return shown;
}

tool::plot as_plot(const compare_options& given, const std::vector<row>& rows, std::size_t tensors) {
  std::uint64_t weights = 0;
  tool::plot chart;
  for (const row& each : rows) {
    if (each.tensor != "*") continue;
    weights = each.measured.weights;
    if (chart.series.empty() || chart.series.back().name != each.method) chart.series.push_back({each.method, {}});
    chart.series.back().points.push_back(
        {each.measured.per_weight(each.measured.bits), each.measured.error.plain.sqnr_db()});
  }
  chart.title = "Signal to quantisation noise by bits per weight";
  chart.subtitle = tool::short_name(given.input) + ": " + tool::grouped(weights) + " weights in " +
                   std::to_string(tensors) + " tensors; scales, tables and all other overhead counted";
  chart.x_label = "bits per weight (fewer is better)";
  chart.y_label = "SQNR in dB (more is better)";
  return chart;
}

ecq::result<void> run(const compare_options& given) {
  ECQ_TRY(model, ecq::open_plain(given.input));
  ECQ_TRY(picture, tool::open_picture(given.picture, model.inputs()));
  ECQ_TRY(blocks, choose(given, model));
  std::size_t tensors = 0;
  for (const block& each : blocks) tensors += each.size();
  tool::progress_bar bar(given.quiet);
  comparison work(given, model, std::move(blocks), bar);
  auto outcome = measure_all(given, work);
  bar.clear();
  ECQ_TRY(all, tool::naming(given.input, std::move(outcome)));
  const auto& [rows, missed] = all;
  if (picture) ECQ_CHECK(tool::commit(*picture, tool::to_svg(as_plot(given, rows, tensors))));
  if (given.as_json) {
    tool::json list = tool::json::array(), out_of_reach = tool::json::array();
    for (const row& each : rows) list.push_back(as_json(each));
    for (const missed_rate& each : missed) out_of_reach.push_back(as_json(each));
    tool::print({{"input", given.input}, {"rows", list}, {"out_of_reach", out_of_reach}});
  } else {
    std::cout << as_table(given, rows);
    for (const missed_rate& each : missed) {
      std::cout << "\nout of reach: " << each.method << ": " << each.reason;
    }
    if (!missed.empty()) std::cout << '\n';
    if (picture && !given.quiet) std::cout << "\npicture: " << tool::printable(given.picture) << '\n';
  }
  return {};
}

}  // namespace

void tool::add_compare(CLI::App& app, action& chosen) {
  auto given = std::make_shared<compare_options>();
  CLI::App* command = app.add_subcommand("compare", "Compare the rate and distortion of EntQuant and other methods");
  command->add_option("IN", given->input, "Plain checkpoint")->required();
  command
      ->add_option("--bits", given->bits,
                   "Comma-separated list of bits per weight; fixed-rate methods use the nearest whole number of bits")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(number_between(1.3, 6.5))
      ->capture_default_str();
  command
      ->add_option("--methods", given->methods,
                   "Comma-separated list of methods: entquant; tcq4, tcq8, tcq16, tcq32 (trellis with that many "
                   "states); absmax (entropy-coded); rtn; nf4; nf4-dq (double quantisation); hqq; entrollm-8, "
                   "entrollm-4 (uint8 and uint4, one code for the whole model)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(all_methods))
      ->capture_default_str();
  command
      ->add_option("--tensor", given->tensor,
                   "Only tensors whose names match this pattern (* and ?); by default all tensors that 'ecq "
                   "compress' would compress")
      ->check(not_empty());
  command->add_option("--svg", given->picture, "Write the rate-distortion plot to this file")->check(seekable_name());
  command
      ->add_option("--max-weights", given->max_weights,
                   "Use about this many weights of each tensor, from evenly spaced rows; 0 = all")
      ->check(whole_number());
  command->add_flag("--details", given->details, "Also print a line for each tensor (JSON always includes them)");
  add_common_options(*command, *given);
  command->final_callback([given, &chosen] { chosen = [given] { return run(*given); }; });
}
