#pragma once
/// \file
/// EntroLLM's first pass over a checkpoint: the grid of every tensor, and how often each code occurs in all of them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/lambda_search.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/quantize/entrollm.hpp"
#include "ecq/stream/stream_encoder.hpp"

namespace ecq::detail {

/// The one code of a model: its coder makes one table from the counts, which all streams carry.
struct model_code {
  histogram counts;
  coder_id coder = coder_id::huffman;
};

/// Of the coders, the one whose streams together are expected to be smallest, words, states and tables counted; the
/// first of equals.
template <entropy_coder... Coders>
coder_id expected_smallest(smallest_of<Coders...>, const histogram& counts, std::uint64_t chunks,
                           std::uint64_t streams) {
  coder_id best{};
  std::optional<std::uint64_t> least;
  const auto weigh = [&]<class Coder>(Coder) {
    const auto plan = Coder::plan({&counts, 1});
    std::vector<std::byte> record;
    plan.tables[0].append_to(record);
    const std::uint64_t bits =
        plan.bits + plan.map.bits * counts.total() + 8 * (Coder::state_bytes * chunks + record.size() * streams);
    if (least && bits >= *least) return;
    least = bits;
    best = Coder::id;
  };
  (weigh(Coders{}), ...);
  return best;
}

/// Sets the grid of every tensor and counts all codes of `Format`. `advance(tensor)`, which returns result<void>, is
/// called before each; errors name the tensor. Memory: the codes of the largest tensor.
template <affine_format Format, class Advance>
result<model_code> make_model_code(const cpu& backend, const checkpoint& model, const compress_options& options,
                                   std::span<selected_block> blocks, Advance&& advance) {
  model_code code;
  std::uint64_t chunks = 0;
  std::vector<std::uint8_t> codes;
  const auto count = [&](selected_tensor& tensor) -> result<histogram> {
    ECQ_TRY(weights, as_weights(*tensor.entry, model.bytes(*tensor.entry)));
    ECQ_TRY(grid, entrollm{}.fit<Format>(backend, weights));
    tensor.grid = grid;
    codes.resize(weights.size());
    ECQ_CHECK(entrollm{}.encode<Format>(backend, weights, grid, codes));
    model.release(*tensor.entry);
    return count_codes(backend, codes);
  };
  for (selected_block& block : blocks) {
    for (selected_tensor& tensor : block.tensors) {
      ECQ_CHECK(advance(tensor));
      auto counts = count(tensor);
      if (!counts) return std::move(counts).error().within("tensor '" + tensor.entry->name + "'");
      code.counts += *counts;
      const std::uint64_t size = counts->total();
      chunks += chunks_of(size, options.chunk_bits != 0 ? options.chunk_bits : default_chunk_bits(size));
    }
  }
  code.coder = options.coder ? *options.coder : expected_smallest(smallest_any{}, code.counts, chunks, blocks.size());
  return code;
}

}  // namespace ecq::detail
