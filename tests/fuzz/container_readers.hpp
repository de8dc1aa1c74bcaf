#pragma once
/// \file
/// Gives the bytes of a safetensors file or a container, whole or damaged, to everything that reads them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "ecq/io/safetensors.hpp"
#include "support/files.hpp"

namespace ecq_test {

/// Outcome of reading a file: whether everything in it was accepted, and what contradicts that, if anything.
struct file_reading {
  bool accepted = false;
  std::string contradiction;
};

/// Reads the header of a safetensors file. If it is accepted, another JSON reader must find the same in it: tensors
/// that cover the data one by one.
inline file_reading read_safetensors(std::string_view file) {
  const auto header = ecq::parse_safetensors(as_bytes(file));
  if (!header) return {};
  const std::string_view text = file.substr(8, static_cast<std::size_t>(header->data_begin) - 8);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return {true, "no JSON object"};
  std::uint64_t covered = 0;
  for (const ecq::tensor_entry& tensor : header->tensors) {
    const auto found = json.find(tensor.name);
    if (found == json.end() || found->at("dtype") != tensor.dtype || found->at("shape") != tensor.shape ||
        found->at("data_offsets") != std::vector{tensor.begin, tensor.end}) {
      return {true, "tensor '" + tensor.name + "' is another one"};
    }
    if (tensor.begin != covered || tensor.end < tensor.begin) return {true, "gap before '" + tensor.name + "'"};
    covered = tensor.end;
  }
  if (covered != file.size() - header->data_begin) return {true, "data behind the last tensor"};
  if (json.size() != header->tensors.size() + json.count("__metadata__")) return {true, "tensors are missing"};
  return {true, {}};
}

/// Writes all checksums that fit the bytes of a container, as far as its tensors are found.
inline void seal_container(std::string& file) {
  const auto header = ecq::parse_safetensors(as_bytes(file));
  if (!header) return;
  const auto data = static_cast<std::size_t>(header->data_begin);
  const ecq::tensor_entry* own = nullptr;
  for (const ecq::tensor_entry& tensor : header->tensors) {
    if (tensor.name == ecq::header_checksum_name && tensor.size_bytes() == 8) own = &tensor;
    const std::string member = "\\\"" + tensor.name + "\\\":\\\"";
    const std::size_t at = std::string_view(file).substr(0, data).find(member);
    if (at == std::string::npos || data - at < member.size() + 16) continue;
    const auto bytes = as_bytes(file).subspan(data + static_cast<std::size_t>(tensor.begin),
                                              static_cast<std::size_t>(tensor.size_bytes()));
    file.replace(at + member.size(), 16, ecq::detail::hex64(ecq::xxh64(bytes)));
  }
  if (own == nullptr) return;
  const std::uint64_t sum = ecq::xxh64(as_bytes(file).first(data));
  for (unsigned i = 0; i < 8; ++i) {
    file[data + static_cast<std::size_t>(own->begin) + i] = static_cast<char>(sum >> (8 * i) & 0xFFU);
  }
}

/// Opens a container and reads everything in it. Weights that decode must have codes that decode.
inline file_reading read_container(const std::filesystem::path& path) {
  constexpr std::size_t most_weights = std::size_t{1} << 15;
  const auto reader = ecq::container_reader::open(path);
  if (!reader) return {};
  file_reading got{reader->verify().has_value(), {}};
  for (std::size_t index = 0; index < reader->blocks().size(); ++index) {
    const auto block = reader->load(index);
    if (!block && got.accepted) return {true, "verified, but block " + std::to_string(index) + " cannot be loaded"};
    const auto decoder = block ? ecq::block_decoder::open(*block) : block.error();
    got.accepted = got.accepted && decoder.has_value();
    if (!decoder) continue;
    for (std::size_t at = 0; at < decoder->matrices().size(); ++at) {
      const ecq::packed_matrix& matrix = decoder->matrices()[at];
      if (matrix.layout.columns > most_weights) continue;
      const std::size_t rows = (std::min)(matrix.layout.rows, most_weights / (matrix.layout.columns + 1));
      std::vector<float> weights(rows * matrix.layout.columns);
      std::vector<std::byte> codes(weights.size() * ecq::size_of(matrix.format));
      const auto decoded = decoder->decode(ecq::cpu{}, at, matrix.layout.rows - rows,
                                           ecq::matrix_view(weights.data(), rows, matrix.layout.columns));
      const auto taken = decoder->decode_codes(ecq::cpu{}, at, matrix.layout.rows - rows, rows, codes);
      if (decoded && !taken) got.contradiction = "weights without codes in '" + matrix.name + "'";
      got.accepted = got.accepted && decoded;
    }
  }
  return got;
}

}  // namespace ecq_test
