#pragma once
/// \file
/// The lambdas with which the tensors of a checkpoint meet a rate.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/compress_options.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/quantize/finite.hpp"
#include "ecq/quantize/target_bits.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq::detail {

/// A tensor on its way into a block.
struct selected_tensor {
  const tensor_entry* entry = nullptr;
  double lambda = 0;
  affine_grid grid{};  ///< of EntroLLM's codes
};

struct selected_block {
  std::string name;
  std::vector<selected_tensor> tensors;
};

inline void set_lambdas(std::span<selected_block> blocks, double lambda) {
  for (selected_block& block : blocks) {
    for (selected_tensor& tensor : block.tensors) tensor.lambda = lambda;
  }
}

/// The search sees samples of rows; a weight that is no number is looked for in the tensors themselves.
inline error name_non_finite(const cpu& backend, const checkpoint& model, std::span<const selected_block> blocks,
                             const error& found) {
  if (found.code() != errc::non_finite) return found;
  for (const selected_block& block : blocks) {
    for (const selected_tensor& tensor : block.tensors) {
      ECQ_TRY(weights, as_weights(*tensor.entry, model.bytes(*tensor.entry)));
      if (auto finite = check_finite(backend, weights); !finite) {
        return std::move(finite).error().within("tensor '" + tensor.entry->name + "'");
      }
    }
  }
  return found;
}

/// Sets the lambda of every tensor such that all of them, or with bits_per_tensor each of them, take
/// options.bits_per_weight. Errors name the tensor: those of lambda_for_bits.
inline result<void> search_lambdas(const cpu& backend, const checkpoint& model, const compress_options& options,
                                   std::span<selected_block> blocks) {
  std::vector<rate_input> inputs;
  std::vector<selected_tensor*> tensors;
  std::vector<std::uint64_t> symbols(blocks.size());
  for (std::size_t stream = 0; stream < blocks.size(); ++stream) {
    for (selected_tensor& tensor : blocks[stream].tensors) {
      ECQ_TRY(weights, as_weights(*tensor.entry, model.bytes(*tensor.entry)));
      symbols[stream] += weights.size();
      inputs.push_back({weights, stream});
      tensors.push_back(&tensor);
    }
  }
  const auto search = [&](std::size_t first, std::span<const rate_input> some, const auto& overhead) {
    return visit_code_format(options.format, [&]<class Format>() -> result<double> {
      if constexpr (symmetric_format<Format>) {
        return lambda_for_bits<Format>(
            backend, some, *options.bits_per_weight, overhead,
            {.finished_reading = [&](std::size_t index) { model.release(*tensors[first + index]->entry); }});
      } else {
        return error(errc::invalid_argument, "format");
      }
    });
  };
  const auto overhead_bits = [&](std::uint64_t count) {
    const unsigned bits = options.chunk_bits != 0 ? options.chunk_bits : default_chunk_bits(count);
    return 8.0 * static_cast<double>(stream_overhead_bytes(count, bits));
  };
  if (!options.bits_per_tensor) {
    const auto lambda = search(0, inputs, [&](std::size_t, std::uint64_t count) { return overhead_bits(count); });
    if (!lambda) return name_non_finite(backend, model, blocks, lambda.error());
    set_lambdas(blocks, *lambda);
    return {};
  }
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const std::uint64_t block = symbols[inputs[index].stream];
    const rate_input alone{inputs[index].weights, 0};
    const auto lambda = search(index, std::span(&alone, 1), [&](std::size_t, std::uint64_t count) {
      return overhead_bits(block) * static_cast<double>(count) / static_cast<double>(block);
    });
    if (!lambda && lambda.error().code() == errc::non_finite) {
      return name_non_finite(backend, model, blocks, lambda.error());
    }
    if (!lambda) return error(lambda.error()).within("tensor '" + tensors[index]->entry->name + "'");
    tensors[index]->lambda = *lambda;
  }
  return {};
}

}  // namespace ecq::detail
