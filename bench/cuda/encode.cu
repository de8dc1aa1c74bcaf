#include "bench.cuh"
// after bench.cuh, which observes launches
#include "ecq/cuda/encode.cuh"
#include "suites.hpp"

namespace ecq_bench {

namespace {

template <ecq::device_encoded Coder>
ecq::result<figure> encoding(std::optional<ecq::dtype> format, const bytes& elements, unsigned chunk_bits) {
  const ecq::device_stream_options options{.chunk_bits = chunk_bits, .goal = goal_of(chunk_bits)};
  ECQ_TRY(workspace_bytes, ecq::encode_workspace_bytes(format, elements.size(), options));
  ECQ_TRY(capacity, ecq::encoded_capacity(format, elements.size(), options));
  const std::size_t count = rotated_buffers(elements.size());
  ECQ_TRY(inputs, buffers(count, elements.size()));
  ECQ_TRY(outputs, buffers(count, capacity));
  ECQ_TRY(workspaces, buffers(count, workspace_bytes));
  ECQ_TRY(flag, device_memory::of(16));
  auto* const size = reinterpret_cast<std::uint64_t*>(flag.data() + 8);
  for (const device_memory& input : inputs) {
    ECQ_CHECK(ecq::detail::check_cuda(
        cudaMemcpy(input.data(), elements.data(), elements.size(), cudaMemcpyHostToDevice), "copying elements"));
  }
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  ECQ_TRY(found, measured(verdict, count, [&](std::size_t i) {
            return ecq::encode_elements<Coder>(gpu, format, {inputs[i].data(), elements.size()}, options,
                                               {workspaces[i].data(), workspace_bytes}, {outputs[i].data(), capacity},
                                               size, verdict);
          }));
  constexpr coder which = std::is_same_v<Coder, ecq::rans_direct> ? coder::rans_direct : coder::rans;
  ECQ_TRY(expected, encoded(which, format, elements, {.chunk_bits = chunk_bits, .goal = options.goal}));
  std::uint64_t made = 0;
  ECQ_CHECK(ecq::detail::check_cuda(cudaMemcpy(&made, size, sizeof made, cudaMemcpyDeviceToHost), "reading a size"));
  if (made != expected.size()) {
    return ecq::error(ecq::errc::corrupt, "a stream of ", made, " bytes, not of ", expected.size());
  }
  ECQ_CHECK(check_same(outputs.back().data(), expected));
  found.elements = elements.size() / (format ? ecq::size_of(*format) : 1);
  found.bits = 8 * static_cast<double>(made) / static_cast<double>(found.elements);
  return std::move(found);
}

}  // namespace

void encode(session& run, std::size_t size) {
  for (const workload& work : element_workloads) {
    bytes made;
    const auto rows_of = [&]<class Coder>() {
      for (const unsigned chunk_bits : {0U, 13U, 14U}) {
        if (chunk_bits != 0 && size > most_for_other_chunks) continue;
        const std::string how =
            std::string(Coder::name) + (chunk_bits != 0 ? ", 2^" + std::to_string(chunk_bits) + " a chunk" : "");
        run.row({"encode", work.name, how, size}, [&]() -> ecq::result<figure> {
          if (made.empty()) made = elements_of(work, size);
          ECQ_CHECK(measure_copy(run, size));
          return encoding<Coder>(work.format, made, chunk_bits);
        });
      }
    };
    rows_of.operator()<ecq::rans>();
    rows_of.operator()<ecq::rans_direct>();
  }
}

}  // namespace ecq_bench
