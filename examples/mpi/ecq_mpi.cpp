// ecq-mpi: compresses one model with many processes, each of which writes some of its files.
//
//   mpirun -n 16 ecq-mpi model -o model-3bit --bits 3
//
// The output does not depend on the number of processes: it has the same bytes as that of `ecq compress`. Processes
// agree before files get their names, so that either all files get them or none. Exit codes are those of ecq. Only
// process 0 prints.

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "../ecq/command.hpp"
#include "../ecq/compress_arguments.hpp"
#include "../ecq/compress_summary.hpp"
#include "../ecq/interrupt.hpp"
#include "../ecq/open_files.hpp"
#include "../ecq/progress_bar.hpp"
#include "../ecq/suggestion.hpp"
#include "../ecq/text.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/version.hpp"

namespace {

constexpr int failed = 1;
constexpr int wrong_usage = 2;

/// All processes that were started together.
class processes {
 public:
  processes() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &count_);
  }

  bool first() const { return rank_ == 0; }
  ecq::folder_part part() const { return {static_cast<std::size_t>(rank_), static_cast<std::size_t>(count_)}; }

  /// An ecq::part_agreement. It sums integers, so that the order of processes does not matter.
  ecq::result<ecq::part_size> agree(const ecq::result<ecq::part_size>& mine) const {
    int failing = mine ? count_ : rank_;
    MPI_Allreduce(MPI_IN_PLACE, &failing, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (failing < count_) return error_of(failing, mine);
    std::array<std::uint64_t, 2> sums{mine->bytes, mine->weights};
    MPI_Allreduce(MPI_IN_PLACE, sums.data(), 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return ecq::part_size{sums[0], sums[1]};
  }

  /// Adds up the reports of all processes in process 0. Returns the number of compressed tensors.
  std::uint64_t add_up(ecq::compress_report& report) const {
    const auto sum = [&](void* numbers, int count, MPI_Datatype type) {
      MPI_Reduce(first() ? MPI_IN_PLACE : numbers, numbers, count, type, MPI_SUM, 0, MPI_COMM_WORLD);
    };
    double entropy_bits = report.entropy * static_cast<double>(report.weights);
    std::uint64_t tensors = report.tensors.size();
    sum(&entropy_bits, 1, MPI_DOUBLE);
    const auto sum_each = [&](auto&... numbers) {
      std::array<std::uint64_t, sizeof...(numbers)> all{numbers...};
      sum(all.data(), static_cast<int>(all.size()), MPI_UINT64_T);
      std::size_t next = 0;
      ((numbers = all[next++]), ...);
    };
    sum_each(report.weights, report.compressed_bytes, report.file_bytes, report.input_bytes, report.blocks,
             report.passed_through, report.unpacked, report.by_fallback, report.of_quantized, report.left_quantized,
             report.non_finite, report.exact, tensors);
    if (report.weights != 0) {
      report.bits_per_weight = 8.0 * static_cast<double>(report.compressed_bytes) / static_cast<double>(report.weights);
      report.entropy = entropy_bits / static_cast<double>(report.weights);
    }
    if (count_ > 1) report.joint_entropy = 0;  // no process has seen all codes
    return tensors;
  }

 private:
  /// Returns the error of process `failing`, in all processes.
  ecq::error error_of(int failing, const ecq::result<ecq::part_size>& mine) const {
    auto code = static_cast<int>(ecq::errc::invalid_argument);
    std::string message;
    if (rank_ == failing) {
      code = static_cast<int>(mine.error().code());
      message = mine.error().message();
    }
    auto size = static_cast<int>(message.size());
    MPI_Bcast(&code, 1, MPI_INT, failing, MPI_COMM_WORLD);
    MPI_Bcast(&size, 1, MPI_INT, failing, MPI_COMM_WORLD);
    message.resize(static_cast<std::size_t>(size));
    MPI_Bcast(message.data(), size, MPI_CHAR, failing, MPI_COMM_WORLD);
    return ecq::error(static_cast<ecq::errc>(code), "process ", failing, " of ", count_, ": ", message);
  }

  int rank_ = 0, count_ = 1;
};

ecq::result<void> run(const tool::compress_arguments& given, const processes& all) {
  auto checked = given.to_options();
  if (checked && !tool::is_for_folder(given.input, given.output)) {
    checked =
        ecq::error(ecq::errc::invalid_argument, "ecq-mpi needs a folder or index as input and a folder as output");
  }
  // A process may lack a file that the others have: none of them must wait for it.
  ECQ_CHECK(all.agree(checked ? ecq::result<ecq::part_size>(ecq::part_size{}) : checked.error()));
  ecq::compress_options how = std::move(*checked);
  how.part = all.part();
  how.agree = [&](const ecq::result<ecq::part_size>& mine) { return all.agree(mine); };
  const tool::stopwatch clock;
  tool::progress_bar bar(given.quiet || !all.first());
  ECQ_TRY(report, tool::naming(given.input,
                               ecq::compress_folder(given.backend(), given.input, given.output, how, bar.callback())));
  bar.clear();
  const std::uint64_t tensors = all.add_up(report);
  if (!all.first()) return {};
  const double seconds = clock.seconds();
  if (given.as_json) {
    tool::json answer = tool::summary_json(given, report, seconds);
    answer["processes"] = how.part.count;
    tool::print(std::move(answer));
  } else if (!given.quiet) {
    std::cout << tool::summary(given, report, tensors, seconds);
  }
  return {};
}

int run(int argc, char** argv, const processes& all) {
  const auto complain = [&](std::string_view what, int code) {
    if (all.first()) std::cerr << "ecq-mpi: " << tool::printable(what) << '\n';
    return code;
  };
  CLI::App app("Compresses one model with many processes: mpirun -n N ecq-mpi IN -o OUT", "ecq-mpi");
  app.set_version_flag("--version", "ecq-mpi " ECQ_VERSION_STRING);
  const auto given = std::make_shared<tool::compress_arguments>();
  tool::add_compress_options(app, given, [] {});
  if (argc < 2) {
    if (all.first()) std::cout << app.help();
    return wrong_usage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    if (all.first()) app.exit(asked);
    return 0;
  } catch (const CLI::ParseError& wrong) {
    // A file that options name may be missing for some processes only.
    const ecq::error explained(ecq::errc::invalid_argument, tool::explanation(app, wrong));
    return complain(all.agree(explained).error().message(), wrong_usage);
  }
  const ecq::result<void> outcome = run(*given, all);
  if (!outcome) return complain(outcome.error().to_string(), failed);
  if (!std::cout.flush()) return complain("input/output error: cannot write to standard output", failed);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  tool::stop_cleanly_on_signals("ecq-mpi", true);
  tool::open_as_many_files_as_allowed();
  int code = failed;
  try {
    code = run(argc, argv, processes());
  } catch (const std::exception& unexpected) {
    // Other processes may be waiting for this one, so none of them can go on.
    std::cerr << "ecq-mpi: " << tool::printable(unexpected.what()) << '\n';
    MPI_Abort(MPI_COMM_WORLD, failed);
  }
  MPI_Finalize();
  return code;
}
