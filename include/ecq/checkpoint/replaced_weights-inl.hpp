#pragma once
/// \file
/// Definition of the check of files that would be replaced.

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/text.hpp"
#include "ecq/checkpoint/replaced_weights.hpp"
#include "ecq/container/description.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/safetensors.hpp"
#include "ecq/packed.hpp"

namespace ecq::detail {

ECQ_INLINE tensor_names names_in(const checkpoint& model) {
  tensor_names names;
  for (const safetensors_file& shard : model.shards()) {
    for (const tensor_entry& tensor : shard.tensors()) names.insert(tensor.name);
  }
  return names;
}

ECQ_INLINE tensor_names names_in(const container_reader& container) {
  tensor_names names;
  for (const block_description& block : container.blocks()) {
    for (const packed_matrix& matrix : block.matrices) names.insert(matrix.name);
  }
  for (const tensor_entry& tensor : container.passed_through()) names.insert(tensor.name);
  return names;
}

ECQ_INLINE result<void> check_replaced(const std::filesystem::path& path, bool container, const tensor_names& names) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  constexpr std::string_view instead = " would be replaced; remove it or choose another folder";
  const auto refusal = [&](const auto&... what) {
    return error(errc::invalid_argument, quoted(path), ": ", what..., instead);
  };
  const auto unreadable = [&](const error& why) {  // `why` names the file
    return error(errc::invalid_argument, why.message(), "; a file that cannot be read", instead);
  };
  const auto check = [&](const tensor_names& there) -> result<void> {
    for (const std::string_view name : there) {
      if (!names.contains(name)) return refusal("weights of another model, such as '", name, "',");
    }
    return {};
  };
  const auto file = safetensors_file::open(path);
  if (!file) return unreadable(file.error());
  if (is_container(*file) != container) {
    return refusal(container ? "weights that are not compressed" : "compressed weights");
  }
  if (container) {
    const auto packed = container_reader::open(path);
    return packed ? check(names_in(*packed)) : unreadable(packed.error());
  }
  tensor_names there;
  for (const tensor_entry& tensor : file->tensors()) there.insert(tensor.name);
  return check(there);
}

}  // namespace ecq::detail
