#include <cstdio>

#include "bench.cuh"
// after bench.cuh, which observes launches
#include "ecq/cuda/decode.cuh"
#include "ecq/stream/encoded_stream.hpp"
#include "suites.hpp"

namespace ecq_bench {

namespace {

ecq::result<void> decode_some() {
  const bytes elements = elements_of(element_workloads[2], 5000);
  ECQ_TRY(blob, encoded(coder::tans, {}, elements, {}));
  ECQ_TRY(stream, ecq::encoded_stream::parse(blob));
  ECQ_TRY(image, ecq::device_image::of(stream));
  ECQ_TRY(input, device_memory::of(image.bytes()));
  ECQ_TRY(output, device_memory::of(elements.size()));
  ECQ_TRY(flag, device_memory::of(8));
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  ECQ_CHECK(verdict.clear(gpu));
  ECQ_TRY(on_device, image.upload(gpu, input.data()));
  ECQ_CHECK(ecq::decode_elements(gpu, on_device, 0, {output.data(), elements.size()}, verdict));
  ECQ_CHECK(verdict.wait(gpu));
  return check_same(output.data(), elements);
}

ecq::result<figure> decoding(const bytes& elements, std::span<const std::byte> blob) {
  ECQ_TRY(stream, ecq::encoded_stream::parse(blob));
  ECQ_TRY(image, ecq::device_image::of(stream));
  const ecq::cuda gpu;
  const std::size_t count = rotated_buffers(elements.size());
  ECQ_TRY(inputs, buffers(count, image.bytes()));
  ECQ_TRY(outputs, buffers(count, elements.size()));
  ECQ_TRY(flag, device_memory::of(8));
  const ecq::device_verdict verdict(flag.data());
  std::vector<ecq::device_stream> streams;
  for (const device_memory& input : inputs) {
    ECQ_TRY(on_device, image.upload(gpu, input.data()));
    streams.push_back(on_device);
  }
  ECQ_TRY(found, measured(verdict, count, [&](std::size_t i) {
            return ecq::decode_elements(gpu, streams[i], 0, {outputs[i].data(), elements.size()}, verdict);
          }));
  ECQ_CHECK(check_same(outputs.back().data(), elements));
  found.elements = stream.size();
  found.bits = 8 * static_cast<double>(blob.size()) / static_cast<double>(stream.size());
  return std::move(found);
}

struct way {
  coder which;
  bool pairs;
  unsigned chunk_bits;  ///< 0: the default
};

}  // namespace

bool runs_kernels() {
  const auto decoded = decode_some();
  if (!decoded) std::fprintf(stderr, "bench_cuda: %s\n", decoded.error().to_string().c_str());
  return decoded.has_value();
}

void decode_elements(session& run, std::size_t size) {
  constexpr way ways[] = {
      {coder::rans_direct, false, 0},  {coder::rans_direct, true, 0},   {coder::rans_direct, false, 13},
      {coder::rans_direct, true, 13},  {coder::rans_direct, true, 14},  {coder::rans, false, 0},
      {coder::tans, false, 0},         {coder::tans, false, 14},        {coder::tans, true, 0},
      {coder::tans, true, 13},         {coder::tans, true, 14},         {coder::huffman, false, 0},
      {coder::huffman, true, 0},       {coder::huffman, true, 13},      {coder::huffman, true, 14},
      {coder::huffman_gaps, false, 0}, {coder::huffman_gaps, false, 13}};
  for (const workload& work : element_workloads) {
    bytes made;
    for (const way& one : ways) {
      if (one.chunk_bits != 0 && size > most_for_other_chunks) continue;
      const std::string how = std::string(name_of(one.which)) + (one.pairs ? ", pairs" : "") +
                              (one.chunk_bits != 0 ? ", 2^" + std::to_string(one.chunk_bits) + " a chunk" : "");
      run.row({"decode", work.name, how, size}, [&]() -> ecq::result<figure> {
        if (made.empty()) made = elements_of(work, size);
        ECQ_CHECK(measure_copy(run, size));
        const ecq::stream_options options = {
            .chunk_bits = one.chunk_bits, .pairs = one.pairs, .goal = goal_of(one.chunk_bits)};
        ECQ_TRY(blob, encoded(one.which, work.format, made, options));
        return decoding(made, blob);
      });
    }
  }
}

}  // namespace ecq_bench
