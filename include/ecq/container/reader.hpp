#pragma once
/// \file
/// A reader that opens a container and hands out its blocks and tensors one at a time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/checksum.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/container/description.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/limits.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/io/safetensors.hpp"
#include "ecq/packed.hpp"

namespace ecq {

/// Whether the file claims to be a container, whole or damaged.
bool is_container(const safetensors_file& file) noexcept;

/// Whether the file at `path` claims to be a container, whole or damaged; for a folder or an index, whether the first
/// file of the model does.
result<bool> is_container(const std::filesystem::path& path);

/// A block of an open container, with its scales, values and exact weights in memory and its stream in the mapped file.
struct mapped_block {
  std::vector<packed_matrix> matrices;
  std::span<const std::byte> stream;

  operator packed_block_view() const noexcept { return {matrices, stream}; }
};

/// A container whose header and description have been checked. Data are checked when they are read: the reader checks
/// scales and passed-through tensors, decoders check the chunks of streams, and verify() checks everything at once.
class container_reader {
 public:
  /// Opens the container at `path`. Errors name the file: those of safetensors_file::open and parse_description,
  /// errc::not_found for a safetensors file that is not a container, errc::checksum_mismatch for a header that was
  /// changed, errc::corrupt if description and tensors disagree.
  static result<container_reader> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  std::uint64_t size_bytes() const noexcept { return file_.size_bytes(); }
  const std::string& tool() const noexcept { return description_.tool; }
  const std::string& settings() const noexcept { return description_.settings; }

  /// Returns the metadata of the original file.
  const string_map& metadata() const noexcept { return metadata_; }

  /// Returns the blocks with names, shapes and formats of their matrices; load() adds scales, values and exact weights.
  std::span<const block_description> blocks() const noexcept { return description_.blocks; }

  /// Returns the header of the file that was compressed, preceded by its length; empty if the container does not have
  /// it. Errors: errc::checksum_mismatch.
  result<std::vector<std::byte>> original_header() const;

  /// Returns the tensors that are stored unchanged, in the order of their data.
  std::span<const tensor_entry> passed_through() const noexcept { return passed_through_; }

  /// Loads block `index`, which must be below blocks().size(), without reading its stream. Errors:
  /// errc::checksum_mismatch names a tensor, such as scales, that was changed.
  result<mapped_block> load(std::size_t index) const;

  /// Gives the memory of a block's stream back to the system.
  void release(const mapped_block& block) const noexcept { file_.release(block.stream); }

  /// Reads one of passed_through(): calls `use(piece)`, which returns result<void>, for each piece of its data in turn,
  /// and then checks the tensor's checksum. Do not trust the pieces before read() has returned. The memory of each
  /// piece is given back after its use.
  template <class Use>
  result<void> read(const tensor_entry& tensor, Use&& use) const;

  /// Reads everything, checks every checksum, and unpacks all scales. Calls `progress(name, done, total)`, with counts
  /// in bytes of data, before each piece; if it returns false, verify ends with errc::invalid_argument ("interrupted").
  template <class Progress>
  result<void> verify(Progress&& progress) const;
  result<void> verify() const;

  const safetensors_file& file() const noexcept { return file_; }

 private:
  container_reader(safetensors_file file, container_description description)
      : file_(std::move(file)), description_(std::move(description)) {}

  result<void> check_header_checksum() const;
  result<void> match_tensors();
  const tensor_checksum* find_checksum(std::string_view tensor) const noexcept;
  result<const tensor_entry*> expect_tensor(const std::string& name, std::string_view type) const;
  error changed(std::string_view what) const;

  safetensors_file file_;
  container_description description_;  ///< checksums sorted by tensor
  string_map metadata_;
  std::vector<tensor_entry> passed_through_;
};

/// Opens the container at `path`, or all containers of the model if that is a folder or an index. Errors: those of
/// container_reader::open and model_files::of; errc::corrupt, naming a tensor, if the index lists other tensors for a
/// file than the file has.
result<std::vector<container_reader>> open_containers(const std::filesystem::path& path);

namespace detail {

/// Fails with errc::corrupt unless `container`, which is shard number `shard`, has the tensors that the index lists for
/// it. Without an index, it may have any.
result<void> check_index(const model_files& files, std::size_t shard, const container_reader& container);

}  // namespace detail

/// Opens the model at `path` (checkpoint::open). Fails with errc::invalid_argument if it is compressed.
result<checkpoint> open_plain(const std::filesystem::path& path);

template <class Use>
result<void> container_reader::read(const tensor_entry& tensor, Use&& use) const {
  xxh64_hasher hasher;
  for (auto bytes = file_.bytes(tensor); !bytes.empty();) {
    const auto piece = bytes.first((std::min)(bytes.size(), file_limits::piece_bytes));
    hasher.update(piece);
    ECQ_CHECK(use(piece));
    file_.release(piece);
    bytes = bytes.subspan(piece.size());
  }
  const tensor_checksum* expected = find_checksum(tensor.name);
  if (expected != nullptr && expected->value == hasher.digest()) return {};
  return changed("tensor '" + tensor.name + "': its data does not match its checksum");
}

template <class Progress>
result<void> container_reader::verify(Progress&& progress) const {
  ECQ_CHECK(check_header_checksum());
  const std::uint64_t total = file_.size_bytes() - file_.header_bytes().size();
  for (const tensor_entry& tensor : file_.tensors()) {
    if (tensor.name == header_checksum_name) continue;
    std::uint64_t done = tensor.begin;
    ECQ_CHECK(read(tensor, [&](std::span<const std::byte> piece) -> result<void> {
      if (!progress(std::string_view(tensor.name), done, total)) return error(errc::invalid_argument, "interrupted");
      done += piece.size();
      return {};
    }));
  }
  for (std::size_t index = 0; index < blocks().size(); ++index) ECQ_CHECK(load(index));
  return {};
}

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/container/reader-inl.hpp"
#endif
