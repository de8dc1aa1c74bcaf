#pragma once
/// \file
/// Definition of the decoding of containers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/decompress_checkpoint.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/checkpoint/segment_queue.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "ecq/io/output_file.hpp"
#include "ecq/io/safetensors_writer.hpp"

namespace ecq {

namespace detail {

/// Calls `use(first_row, rows, weights)` for all rows of a matrix, some at a time; `weights` is row-major.
template <weight_output Element, class Use>
result<void> decode_in_pieces(const cpu& backend, const block_decoder& decoder, std::size_t index, Use&& use) {
  const group_layout& layout = decoder.matrices()[index].layout;
  if (layout.rows == 0 || layout.columns == 0) return {};
  const std::size_t step = (std::max)(std::size_t{1}, weights_per_piece / layout.columns);
  std::vector<Element> weights;
  for (std::size_t row = 0; row < layout.rows; row += step) {
    const std::size_t rows = (std::min)(step, layout.rows - row);
    weights.resize(rows * layout.columns);
    const matrix_view<Element> piece(weights.data(), rows, layout.columns);
    ECQ_CHECK(decoder.decode(backend, index, row, piece));
    ECQ_CHECK(use(row, rows, std::span<const Element>(weights)));
  }
  return {};
}

/// Calls `use(first_row, rows, bytes)` for all rows of a matrix, some at a time; `bytes` are the bits of the codes in
/// the machine's byte order.
template <class Use>
result<void> decode_codes_in_pieces(const cpu& backend, const block_decoder& decoder, std::size_t index, Use&& use) {
  const packed_matrix& matrix = decoder.matrices()[index];
  const group_layout& layout = matrix.layout;
  if (layout.rows == 0 || layout.columns == 0) return {};
  const std::size_t step = (std::max)(std::size_t{1}, weights_per_piece / layout.columns);
  std::vector<std::byte> codes;
  for (std::size_t row = 0; row < layout.rows; row += step) {
    const std::size_t rows = (std::min)(step, layout.rows - row);
    codes.resize(rows * layout.columns * size_of(matrix.format));
    ECQ_CHECK(decoder.decode_codes(backend, index, row, rows, std::span(codes)));
    ECQ_CHECK(use(row, rows, std::span<const std::byte>(codes)));
  }
  return {};
}

ECQ_INLINE dtype output_type(const packed_matrix& matrix, const decompress_options& options) noexcept {
  if (matrix.lossless() && !options.type) return matrix.format;
  const dtype wanted = options.type.value_or(matrix.original);
  return wanted == dtype::fp32 || wanted == dtype::fp16 ? wanted : dtype::bf16;
}

ECQ_INLINE result<safetensors_writer> create_plain(const container_reader& container, const std::filesystem::path& out,
                                                   const decompress_options& options) {
  std::vector<tensor_declaration> tensors;
  for (const tensor_entry& tensor : container.passed_through()) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  for (const block_description& block : container.blocks()) {
    for (const packed_matrix& matrix : block.matrices) {
      tensors.push_back({matrix.name, safetensors_name(output_type(matrix, options)), matrix.shape});
    }
  }
  return safetensors_writer::create(out, std::move(tensors), container.metadata());
}

}  // namespace detail

ECQ_INLINE result<decompress_report> decompress_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                                           const std::filesystem::path& out,
                                                           const decompress_options& options,
                                                           const progress_callback& report_progress) {
  if (options.type && *options.type != dtype::bf16 && *options.type != dtype::fp16 && *options.type != dtype::fp32) {
    return error(errc::invalid_argument, "weights are decoded to bf16, fp16 or fp32, not ", to_string(*options.type));
  }
  try {
    ECQ_TRY(container, container_reader::open(in));
    ECQ_CHECK(refuse_to_overwrite(out, std::span(&container.file().path(), 1)));
    ECQ_TRY(writer, detail::create_plain(container, out, options));
    decompress_report report;
    std::uint64_t done = 0;
    const auto advance = [&](std::string_view current) -> result<void> {
      if (!report_progress || report_progress({"decompressing", current, done, container.size_bytes()})) return {};
      return error(errc::invalid_argument, "interrupted");
    };
    detail::segment_queue queue(backend, writer);
    std::vector<std::byte> scratch;
    // Tensors of wide elements first, so that all data are aligned.
    for (const unsigned bits : {64U, 32U, 16U, 0U}) {
      const auto belongs = [bits](std::string_view type) {
        const unsigned width = find_safetensors_dtype(type)->bits;
        return bits == 0 ? width < 16 : width == bits;
      };
      for (const tensor_entry& tensor : container.passed_through()) {
        if (!belongs(tensor.dtype)) continue;
        ECQ_CHECK(advance(tensor.name));
        ECQ_CHECK(writer.begin(tensor.name));
        ECQ_CHECK(container.read(tensor, [&](std::span<const std::byte> piece) { return writer.append(piece); }));
        ECQ_CHECK(writer.end());
        done += tensor.size_bytes();
        ++report.passed_through;
      }
      for (std::size_t index = 0; index < container.blocks().size(); ++index) {
        const auto& described = container.blocks()[index].matrices;
        const auto belongs_here = [&](const packed_matrix& matrix) {
          return belongs(safetensors_name(detail::output_type(matrix, options)));
        };
        if (std::none_of(described.begin(), described.end(), belongs_here)) continue;
        ECQ_TRY(block, detail::open_block::open(container, index));
        const block_decoder& decoder = block->decoder();
        for (std::size_t position = 0; position < described.size(); ++position) {
          const packed_matrix& matrix = decoder.matrices()[position];
          if (!belongs_here(matrix)) continue;
          ECQ_CHECK(advance(matrix.name));
          const dtype type = detail::output_type(matrix, options);
          if (matrix.lossless() && type == matrix.format) {
            ECQ_CHECK(queue.flush());
            ECQ_CHECK(writer.begin(matrix.name));
            auto decoded = detail::decode_codes_in_pieces(
                backend, decoder, position, [&](std::size_t, std::size_t, std::span<const std::byte> codes) {
                  return writer.append(detail::little_endian_bytes(codes, size_of(type), scratch));
                });
            if (!decoded) return std::move(decoded).error().within("tensor '", matrix.name, "'");
            ECQ_CHECK(writer.end());
          } else {
            ECQ_CHECK(queue.add(block, position, type));
          }
          report.weights += matrix.layout.rows * matrix.layout.columns;
          ++report.tensors;
        }
        done += decoder.stream().bytes().size();
      }
      ECQ_CHECK(queue.flush());
    }
    done = container.size_bytes();
    ECQ_CHECK(advance(""));
    ECQ_CHECK(writer.commit());
    report.output_bytes = writer.data_begin() + writer.data_size();
    return report;
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "no memory to decode a few million weights");
  }
}

}  // namespace ecq
