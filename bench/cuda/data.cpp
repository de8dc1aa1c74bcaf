#include "data.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>

#include "../random_numbers.hpp"
#include "ecq/compressor.hpp"
#include "ecq/decompress.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gaps.hpp"
#include "ecq/entropy/rans/rans_direct.hpp"
#include "ecq/entropy/trellis_walk.hpp"
#include "ecq/stream/encoded_stream.hpp"

namespace ecq_bench {

namespace {

constexpr ecq::cpu host{.threads = 0};

/// Calls `task(first, last)` for runs of `step` out of 0 .. size, on all cores.
template <class Task>
void in_runs(std::size_t size, std::size_t step, Task&& task) {
  static_cast<void>(ecq::parallel_for(host, (size + step - 1) / step, [&](std::size_t run) -> ecq::result<void> {
    task(run * step, (std::min)(size, (run + 1) * step));
    return {};
  }));
}

constexpr std::size_t run_bytes = std::size_t{4} << 20;

template <class Use>
auto with(coder which, Use&& use) {
  switch (which) {
    case coder::rans_direct: return use.template operator()<ecq::rans_direct>();
    case coder::tans: return use.template operator()<ecq::tans>();
    case coder::huffman: return use.template operator()<ecq::huffman>();
    case coder::huffman_gaps: return use.template operator()<ecq::huffman_gaps>();
    case coder::rans: break;
  }
  return use.template operator()<ecq::rans>();
}

}  // namespace

const char* name_of(coder which) {
  return with(which, []<class Coder>() { return Coder::name.data(); });
}

bytes elements_of(const workload& work, std::size_t size) {
  const std::size_t width = work.format ? ecq::size_of(*work.format) : 1;
  bytes made(size);
  const std::size_t period = (std::min)(size, (std::size_t{16} << 20) * width);
  in_runs(period / width, std::size_t{256} << 10, [&](std::size_t first, std::size_t last) {
    random_numbers random(first);
    for (std::size_t at = first; at < last; ++at) {
      if (!work.format) {
        const int code = static_cast<int>(std::nearbyint(work.scale * random.laplace()));
        made[at] = static_cast<std::byte>(std::clamp(code, -127, 127) & 0xFF);
        continue;
      }
      const auto value = static_cast<float>(work.scale * static_cast<double>(random.normal()));
      ecq::visit_format(*work.format, [&]<class Format>() {
        const auto code = Format::encode(value);
        std::memcpy(made.data() + at * width, &code, sizeof code);
      });
    }
  });
  in_runs(size - period, run_bytes, [&](std::size_t first, std::size_t last) {
    for (std::size_t at = period + first; at < period + last;) {
      const std::size_t from = at % period;
      const std::size_t count = (std::min)(period + last - at, period - from);
      std::memcpy(made.data() + at, made.data() + from, count);
      at += count;
    }
  });
  return made;
}

ecq::result<bytes> encoded(coder which, std::optional<ecq::dtype> format, std::span<const std::byte> elements,
                           const ecq::stream_options& options) {
  return with(which, [&]<class Coder>() {
    return format ? ecq::encode_exponents<Coder>(host, *format, elements, options)
                  : ecq::encode_stream<Coder>(
                        host, {reinterpret_cast<const std::uint8_t*>(elements.data()), elements.size()}, options);
  });
}

bytes path_of(const ecq::trellis& walk, std::span<const std::byte> indices) {
  bytes codes(indices.begin(), indices.end());
  ecq::detail::codes_of_indices(walk, {reinterpret_cast<std::uint8_t*>(codes.data()), codes.size()}, host.isa);
  return codes;
}

ecq::result<ecq::packed_block> block_of(coder which, ecq::dtype format, std::span<const std::byte> codes,
                                        std::span<const extent> matrices, const ecq::stream_options& options) {
  ecq::packed_block block;
  ECQ_TRY(stream, encoded(which, {}, codes, options));
  block.stream = std::move(stream);
  random_numbers random(1);
  std::uint64_t symbols = 0;
  for (const extent& one : matrices) {
    ecq::packed_matrix& matrix = block.matrices.emplace_back();
    matrix.name = std::to_string(block.matrices.size() - 1);
    matrix.shape = {one.rows, one.columns};
    matrix.original = ecq::dtype::bf16;
    matrix.format = format;
    matrix.layout = ecq::per_channel{}.layout(one.rows, one.columns);
    matrix.first_symbol = symbols;
    symbols += one.size();
    for (std::size_t row = 0; row < one.rows; ++row) {
      matrix.scales.push_back(ecq::bf16(static_cast<float>(0.01 + 0.01 * random.uniform())));
    }
  }
  return block;
}

ecq::result<std::vector<ecq::bf16>> weights_of(const ecq::packed_block& block, std::size_t index) {
  const ecq::group_layout& layout = block.matrices[index].layout;
  std::vector<ecq::bf16> weights(layout.rows * layout.columns);
  ECQ_CHECK(
      ecq::decompress(host, block, index, ecq::matrix_view<ecq::bf16>(weights.data(), layout.rows, layout.columns)));
  return weights;
}

namespace {

ecq::matrix_view<const ecq::bf16> matrix_of(const quantizing& work, std::size_t index) {
  const auto* const weights = reinterpret_cast<const ecq::bf16*>(work.weights.data());
  return {weights + index * work.rows * work.columns, work.rows, work.columns};
}

}  // namespace

ecq::result<ecq::packed_block> compressed(const quantizing& work) {
  std::vector<ecq::named_weights> named;
  for (std::size_t i = 0; i < work.matrices; ++i) named.push_back({std::to_string(i), matrix_of(work, i)});
  const ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant> codec{work.how, {.chunk_bits = work.chunk_bits}};
  return codec.compress(host, named);
}

ecq::result<bytes> codes_of(const quantizing& work) {
  bytes codes(work.size());
  std::vector<ecq::bf16> scales(work.rows);
  for (std::size_t i = 0; i < work.matrices; ++i) {
    const std::span<std::uint8_t> part(reinterpret_cast<std::uint8_t*>(codes.data()) + i * work.rows * work.columns,
                                       work.rows * work.columns);
    ECQ_CHECK(work.how.quantize<ecq::fp8_e4m3>(host, matrix_of(work, i), part, scales));
  }
  return codes;
}

bool dump_elements(const std::string& folder, std::size_t mib) {
  for (const workload& work : element_workloads) {
    std::string name = work.name;
    for (char& one : name) {
      if (std::strchr("(), ", one) != nullptr) one = '_';
    }
    const bytes made = elements_of(work, mib << 20);
    std::ofstream file(folder + '/' + name + '-' + std::to_string(mib) + ".bytes", std::ios::binary);
    file.write(reinterpret_cast<const char*>(made.data()), static_cast<std::streamsize>(made.size()));
    if (!file.flush()) return false;
  }
  return true;
}

bool same(std::span<const std::byte> one, std::span<const std::byte> other) {
  std::atomic<bool> equal = one.size() == other.size();
  if (!equal) return false;
  in_runs(one.size(), run_bytes, [&](std::size_t first, std::size_t last) {
    if (std::memcmp(one.data() + first, other.data() + first, last - first) != 0) equal = false;
  });
  return equal;
}

}  // namespace ecq_bench
