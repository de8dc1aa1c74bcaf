#pragma once
/// \file
/// A check of the files that a model would replace in its output folder: they must be an earlier result of the same
/// kind.

#include <filesystem>
#include <set>
#include <string_view>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/io/checkpoint.hpp"

namespace ecq::detail {

/// Names of the tensors of a model. They point into the object from which they were taken.
using tensor_names = std::set<std::string_view>;

tensor_names names_in(const checkpoint& model);
tensor_names names_in(const container_reader& container);

/// Fails with errc::invalid_argument if a model whose tensors are `names` must not be written over the file at `path`,
/// because it is not of the same kind (a container if `container`, otherwise none), holds a tensor that is not among
/// them, or cannot be read: a folder named by mistake has files of the same names more often than not. A file that does
/// not exist may be replaced.
result<void> check_replaced(const std::filesystem::path& path, bool container, const tensor_names& names);

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/replaced_weights-inl.hpp"
#endif
