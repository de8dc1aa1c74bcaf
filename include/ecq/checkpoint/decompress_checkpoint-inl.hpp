#pragma once
/// \file
/// Definition of the decoding of containers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/decompress_checkpoint.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/checkpoint/replaced_weights.hpp"
#include "ecq/checkpoint/segment_queue.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "ecq/io/model_config.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/io/output_file.hpp"
#include "ecq/io/safetensors.hpp"
#include "ecq/io/safetensors_dtype.hpp"
#include "ecq/io/safetensors_writer.hpp"
#include "ecq/io/temporary_file.hpp"

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
  if (matrix.is_bytes() || (matrix.lossless() && !options.type)) return matrix.format;
  const dtype wanted = options.type.value_or(matrix.original);
  return wanted == dtype::fp32 || wanted == dtype::fp16 ? wanted : dtype::bf16;
}

/// Returns the element type of a matrix's tensor in files.
ECQ_INLINE std::string_view output_element_type(const packed_matrix& matrix, const decompress_options& options) {
  if (matrix.is_bytes()) return matrix.element_type;
  return safetensors_name(output_type(matrix, options));
}

/// A tensor that decompression writes, and its source.
struct output_tensor {
  std::string_view name;
  std::string_view type;  ///< element type, as files name it
  std::span<const std::uint64_t> shape;
  const tensor_entry* plain = nullptr;  ///< the tensor that passed through; if null, the source is a matrix of a block
  std::size_t block = 0;
  std::size_t matrix = 0;

  bool is_like(const tensor_entry& tensor) const {
    return name == tensor.name && type == tensor.dtype && std::ranges::equal(shape, tensor.shape);
  }
};

/// Returns all tensors of the container, those that passed through first.
ECQ_INLINE std::vector<output_tensor> outputs_of(const container_reader& container, const decompress_options& options) {
  std::vector<output_tensor> outputs;
  for (const tensor_entry& tensor : container.passed_through()) {
    outputs.push_back({tensor.name, tensor.dtype, tensor.shape, &tensor});
  }
  for (std::size_t block = 0; block < container.blocks().size(); ++block) {
    const auto& matrices = container.blocks()[block].matrices;
    for (std::size_t index = 0; index < matrices.size(); ++index) {
      const packed_matrix& matrix = matrices[index];
      outputs.push_back({matrix.name, output_element_type(matrix, options), matrix.shape, nullptr, block, index});
    }
  }
  return outputs;
}

/// Returns the first weights of matrix 0, in whole rows, as files store them.
ECQ_INLINE result<std::vector<std::byte>> first_weights(const cpu& backend, const block_decoder& decoder, dtype type) {
  constexpr std::size_t enough = 4096;
  const packed_matrix& matrix = decoder.matrices().front();
  const std::size_t columns = matrix.layout.columns;
  const std::size_t rows = std::clamp(enough / columns, std::size_t{1}, matrix.layout.rows);
  std::vector<std::byte> bytes, scratch;
  const auto decode = [&]<class Element>(std::vector<Element> weights) -> result<void> {
    weights.resize(rows * columns);
    ECQ_CHECK(decoder.decode(backend, 0, 0, matrix_view<Element>(weights.data(), rows, columns)));
    const auto found = little_endian_bytes(std::as_bytes(std::span(weights)), sizeof(Element), scratch);
    bytes.assign(found.begin(), found.end());
    return {};
  };
  if (matrix.lossless() && type == matrix.format) {
    bytes.resize(rows * columns * size_of(type));
    ECQ_CHECK(decoder.decode_codes(backend, 0, 0, rows, std::span(bytes)));
    const auto found = little_endian_bytes(bytes, size_of(type), scratch);
    return std::vector<std::byte>(found.begin(), found.end());
  }
  ECQ_CHECK(type == dtype::fp32   ? decode(std::vector<float>())
            : type == dtype::fp16 ? decode(std::vector<fp16>())
                                  : decode(std::vector<bf16>()));
  return bytes;
}

/// Fails with errc::invalid_argument if a plain file at `path` has other weights than decompression would write there,
/// perhaps the originals. Compares the first weights of each block.
ECQ_INLINE result<void> check_same_weights(const cpu& backend, const container_reader& container,
                                           const decompress_options& options, const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  ECQ_TRY(file, safetensors_file::open(path));
  for (std::size_t index = 0; index < container.blocks().size(); ++index) {
    const packed_matrix& matrix = container.blocks()[index].matrices.front();
    const tensor_entry* const there = file.find(matrix.name);
    const bool alike = there != nullptr && there->dtype == output_element_type(matrix, options) &&
                       std::ranges::equal(there->shape, matrix.shape);
    bool same = alike;
    if (alike && matrix.layout.rows != 0 && matrix.layout.columns != 0) {
      ECQ_TRY(block, container.load(index));
      ECQ_TRY(decoder, block_decoder::open(block));
      ECQ_TRY(weights, first_weights(backend, decoder, output_type(matrix, options)));
      same = std::ranges::equal(weights, file.bytes(*there).first(weights.size()));
    }
    if (same) continue;
    return error(errc::invalid_argument, quoted(path), ": weights other than those of '", matrix.name,
                 "' would be replaced; remove it or choose another folder");
  }
  return {};
}

/// Puts the outputs into the order of the original, as far as it is known. Returns whether they are exactly its
/// tensors, so that its header fits as it is. Otherwise, tensors of wide elements come first, so that all data are
/// aligned.
ECQ_INLINE bool put_in_order(std::vector<output_tensor>& outputs, std::span<const tensor_entry> original) {
  std::map<std::string_view, std::size_t> positions;
  for (const tensor_entry& tensor : original) positions.emplace(tensor.name, positions.size());
  const auto position_of = [&](const output_tensor& output) {
    const auto found = positions.find(output.name);
    return found == positions.end() ? original.size() : found->second;
  };
  std::ranges::stable_sort(outputs, {}, position_of);
  if (std::ranges::equal(outputs, original, &output_tensor::is_like)) return true;
  std::ranges::stable_sort(outputs, std::greater(), [](const output_tensor& output) {
    return (std::max)(find_safetensors_dtype(output.type)->bits, 8U);
  });
  return false;
}

/// A few blocks of a container, opened when they are needed.
class open_blocks {
 public:
  explicit open_blocks(const container_reader& container) : container_(container) {}

  result<std::shared_ptr<const open_block>> get(std::size_t index) {
    const auto known = std::ranges::find(blocks_, index, [](const auto& each) { return each.first; });
    if (known != blocks_.end()) return known->second;
    ECQ_TRY(opened, open_block::open(container_, index));
    // In the order of the original, tensors alternate between the formats of a layer, which are in different blocks.
    constexpr std::size_t most = 8;
    if (blocks_.size() == most) blocks_.erase(blocks_.begin());
    blocks_.emplace_back(index, opened);
    return opened;
  }

 private:
  const container_reader& container_;
  std::vector<std::pair<std::size_t, std::shared_ptr<const open_block>>> blocks_;
};

/// One run of decompress_checkpoint.
class checkpoint_decompressor {
 public:
  checkpoint_decompressor(const cpu& backend, const container_reader& container, const decompress_options& options,
                          const progress_callback& report_progress)
      : backend_(backend), container_(container), options_(options), report_progress_(report_progress) {}

  /// Writes everything. The file gets its name when it is committed.
  result<safetensors_writer> write(const std::filesystem::path& out) {
    auto outputs = outputs_of(container_, options_);
    ECQ_TRY(writer, create(outputs, out));
    for (const output_tensor& output : outputs) {
      total_ += *tensor_bytes(*find_safetensors_dtype(output.type), output.shape);
    }
    open_blocks blocks(container_);
    segment_queue queue(backend_, writer);
    for (const output_tensor& output : outputs) {
      if (report_progress_ && !report_progress_({"decompressing", output.name, writer.data_size(), total_})) {
        return error(errc::invalid_argument, "interrupted");
      }
      if (output.plain != nullptr) {
        ECQ_CHECK(queue.flush());
        ECQ_CHECK(pass_through(*output.plain, writer));
      } else {
        ECQ_TRY(block, blocks.get(output.block));
        ECQ_CHECK(decode(block, output.matrix, queue, writer));
      }
    }
    ECQ_CHECK(queue.flush());
    if (report_progress_ && !report_progress_({"decompressing", "", total_, total_})) {
      return error(errc::invalid_argument, "interrupted");
    }
    ECQ_CHECK(writer.finish());
    report_.output_bytes = writer.data_begin() + writer.data_size();
    return std::move(writer);
  }

  const decompress_report& report() const noexcept { return report_; }

 private:
  result<safetensors_writer> create(std::vector<output_tensor>& outputs, const std::filesystem::path& out) {
    ECQ_TRY(header, container_.original_header());
    std::vector<tensor_entry> original;
    if (!header.empty()) {
      auto parsed = parse_safetensors_header(header);
      if (!parsed) return std::move(parsed).error().within(quoted(container_.path()), ": ", original_header_name);
      original = std::move(parsed->tensors);
    }
    report_.same_header = put_in_order(outputs, original) && !header.empty();
    if (report_.same_header) return safetensors_writer::create_as(out, header);
    std::vector<tensor_declaration> tensors;
    for (const output_tensor& output : outputs) {
      tensors.push_back({std::string(output.name), output.type, std::vector(output.shape.begin(), output.shape.end())});
    }
    return safetensors_writer::create(out, std::move(tensors), container_.metadata());
  }

  result<void> pass_through(const tensor_entry& tensor, safetensors_writer& writer) {
    ECQ_CHECK(writer.begin(tensor.name));
    ECQ_CHECK(container_.read(tensor, [&](std::span<const std::byte> piece) { return writer.append(piece); }));
    ++report_.passed_through;
    return writer.end();
  }

  result<void> decode(const std::shared_ptr<const open_block>& block, std::size_t index, segment_queue& queue,
                      safetensors_writer& writer) {
    const packed_matrix& matrix = block->decoder().matrices()[index];
    const dtype type = output_type(matrix, options_);
    report_.weights += matrix.weights();
    ++report_.tensors;
    if (!matrix.lossless() || type != matrix.format) return queue.add(block, index, type);
    ECQ_CHECK(queue.flush());
    ECQ_CHECK(writer.begin(matrix.name));
    auto decoded = decode_codes_in_pieces(backend_, block->decoder(), index,
                                          [&](std::size_t, std::size_t, std::span<const std::byte> codes) {
                                            return writer.append(little_endian_bytes(codes, size_of(type), scratch_));
                                          });
    if (!decoded) return std::move(decoded).error().within("tensor '", matrix.name, "'");
    return writer.end();
  }

  cpu backend_;
  const container_reader& container_;
  const decompress_options& options_;
  const progress_callback& report_progress_;
  decompress_report report_;
  std::uint64_t total_ = 0;  ///< bytes to write
  std::vector<std::byte> scratch_;
};

/// Fails with errc::corrupt if a file beside the model holds compressed tensors: the index has lost it. (A container
/// without tensors is what compression leaves of a file that held only scales.)
inline result<void> check_others(const model_files& files) {
  for (const std::filesystem::path& other : files.others) {
    if (other.extension() != ".safetensors") continue;
    const auto container = container_reader::open(files.folder / other);
    if (!container || names_in(*container).empty()) continue;
    return error(errc::corrupt, quoted(container->path()), ": is compressed, but not listed in the index");
  }
  return {};
}

inline result<void> check_output_type(const decompress_options& options) {
  if (!options.type || *options.type == dtype::bf16 || *options.type == dtype::fp16 || *options.type == dtype::fp32) {
    return {};
  }
  return error(errc::invalid_argument, "weights can be decoded to bf16, fp16 or fp32, not ", to_string(*options.type));
}

}  // namespace detail

ECQ_INLINE result<decompress_report> decompress_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                                           const std::filesystem::path& out,
                                                           const decompress_options& options,
                                                           const progress_callback& report_progress) {
  ECQ_CHECK(detail::check_output_type(options));
  return detail::or_out_of_memory("a few million weights", [&]() -> result<decompress_report> {
    ECQ_TRY(container, container_reader::open(in));
    ECQ_CHECK(refuse_to_overwrite(out, std::span(&container.file().path(), 1)));
    detail::checkpoint_decompressor decompressor(backend, container, options, report_progress);
    ECQ_TRY(writer, decompressor.write(out));
    ECQ_CHECK(writer.commit());
    return decompressor.report();
  });
}

ECQ_INLINE result<decompress_report> decompress_folder(const cpu& backend, const std::filesystem::path& in,
                                                       const std::filesystem::path& out,
                                                       const decompress_options& options,
                                                       const progress_callback& report_progress) {
  ECQ_CHECK(detail::check_output_type(options));
  return detail::or_out_of_memory("a few million weights", [&]() -> result<decompress_report> {
    ECQ_TRY(files, model_files::with_others(in));
    ECQ_CHECK(check_apart(files.folder, out));
    std::vector<std::filesystem::path> inputs;
    for (const auto& name : files.names()) inputs.push_back(files.folder / name);
    ECQ_CHECK(check_output_folder(out, files.names(), inputs));
    for (std::size_t index = 0; index < files.shards.size(); ++index) {  // before any is written
      const auto& shard = files.shards[index];
      ECQ_TRY(container, container_reader::open(files.folder / shard));
      ECQ_CHECK(detail::check_index(files, index, container));
      ECQ_CHECK(detail::check_replaced(out / shard, false, detail::names_in(container)));
      ECQ_CHECK(detail::check_same_weights(backend, container, options, out / shard));
    }
    ECQ_CHECK(detail::check_others(files));
    const auto folder = output_folder::create(out);
    if (!folder) return folder.error();
    decompress_report all{.same_header = true};
    std::vector<safetensors_writer> written;
    for (const auto& shard : files.shards) {
      ECQ_CHECK(create_folder((out / shard).parent_path()));
      ECQ_TRY(container, container_reader::open(files.folder / shard));
      detail::checkpoint_decompressor decompressor(backend, container, options, report_progress);
      ECQ_TRY(writer, decompressor.write(out / shard));
      written.push_back(std::move(writer));
      const decompress_report& part = decompressor.report();
      all.weights += part.weights;
      all.output_bytes += part.output_bytes;
      all.tensors += part.tensors;
      all.passed_through += part.passed_through;
      all.same_header = all.same_header && part.same_header;
    }
    ECQ_TRY(others, copies_of_others(files, out, without_mark));
    const finishing_output finishing;  // all files get their names together
    for (safetensors_writer& writer : written) ECQ_CHECK(writer.commit());
    for (output_file& other : others) ECQ_CHECK(other.commit());
    return all;
  });
}

}  // namespace ecq
