#pragma once
/// \file
/// Writer of safetensors files that keeps only a header in memory, besides the piece of data it is given.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/output_file.hpp"
#include "ecq/io/safetensors.hpp"

namespace ecq {

/// A tensor that will be written. Without a shape, it has one dimension, whose extent follows from the data written.
struct tensor_declaration {
  std::string name;
  std::string_view dtype = "U8";
  std::optional<std::vector<std::uint64_t>> shape = std::nullopt;
};

/// Writer of one safetensors file. Tensors may be written in any order; their data lie in that order. Readers that
/// require aligned elements (PyTorch) need tensors in descending order of element size. The length of the header must
/// be known before the data, so it gets room for the longest header that the declarations allow; white space fills the
/// rest.
class safetensors_writer {
 public:
  /// Opens a temporary file beside `path` (output_file). Errors: errc::invalid_argument names a declaration that cannot
  /// be written: unknown dtype, a shape without a size, a name that is duplicate or not UTF-8.
  static result<safetensors_writer> create(const std::filesystem::path& path,
                                           std::vector<tensor_declaration> declarations, string_map metadata = {});

  /// Like create(), for a file that begins with `header`, copied from another file: length, JSON, and all white space.
  /// Tensors must be written in the order of their data. Errors: those of parse_safetensors_header.
  static result<safetensors_writer> create_as(const std::filesystem::path& path, std::span<const std::byte> header);

  /// Returns the header of a file of these tensors, whose data follow one another in this order: length, JSON, and
  /// white space up to a multiple of 64 bytes. Uses only names, types, shapes and sizes.
  static std::vector<std::byte> header_of(std::span<const tensor_entry* const> tensors, const string_map& metadata);

  /// Begins the data of a declared tensor. Write each tensor once, one after another: begin, append..., end.
  result<void> begin(std::string_view name);
  result<void> append(std::span<const std::byte> bytes);
  /// Ends the data of a tensor. Errors: errc::invalid_argument if a tensor of declared shape got more or fewer bytes
  /// than it needs.
  result<void> end();

  /// Writes a whole tensor: begin, append, end.
  result<void> write(std::string_view name, std::span<const std::byte> bytes);

  /// Returns the number of bytes of data written so far, which is where the next tensor begins.
  std::uint64_t data_size() const noexcept { return data_size_; }
  /// Returns the offset of the data in the file, a multiple of 64 after create().
  std::uint64_t data_begin() const noexcept { return header_size_; }

  /// Fixes the header with this metadata, which must not be longer than that given to create(), and returns the
  /// header's bytes (length and JSON). Tensors not yet written must have a declared shape and follow in declared order.
  result<std::span<const std::byte>> seal(const string_map& metadata);

  /// Seals the header with the metadata given to create(), unless it is sealed already, and writes everything to the
  /// disk. Errors: errc::invalid_argument names a tensor that was not written.
  result<void> finish();

  /// Finishes the file, unless that is done, and moves it to its final name.
  result<void> commit();

 private:
  struct slot {
    tensor_declaration declared;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t size = 0;  ///< bytes, if the shape is declared
    std::size_t position = unwritten;
  };
  static constexpr std::size_t unwritten = static_cast<std::size_t>(-1);
  /// Largest offset in bytes, 10^16 - 1. The header has room for its digits in every offset.
  static constexpr std::uint64_t largest_offset = 9'999'999'999'999'999;
  /// Returns the size of length and header together, a multiple of 64 bytes.
  static constexpr std::size_t header_size_of(std::string_view text) { return (text.size() + 8 + 63) / 64 * 64; }

  explicit safetensors_writer(output_file file) : file_(std::move(file)) {}

  template <class... Parts>
  error misuse(const Parts&... parts) const {
    return error(errc::invalid_argument, detail::quoted(file_.path()), ": ", parts...);
  }

  static std::string render(std::span<const slot* const> slots, const string_map& metadata);
  static void fill_header(std::span<std::byte> header, std::string_view text);
  result<void> reserve_header();

  output_file file_;
  std::vector<slot> slots_;
  std::map<std::string, std::size_t, std::less<>> index_;
  string_map metadata_;
  std::vector<std::byte> header_;
  std::uint64_t header_size_ = 0;
  std::uint64_t data_size_ = 0;
  std::size_t written_ = 0;
  std::size_t open_ = unwritten;
  bool sealed_ = false;
  bool finished_ = false;
};

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/io/safetensors_writer-inl.hpp"
#endif
