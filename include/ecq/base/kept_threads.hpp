#pragma once
/// \file
/// Threads that a call keeps until its end.

#include <optional>

#include "ecq/base/backend.hpp"
#include "ecq/base/worker_pool.hpp"

namespace ecq::detail {

/// Backend whose threads stay for as long as this object. Otherwise, a model of many small matrices would start new
/// threads for each matrix.
class kept_threads {
 public:
  /// Throws std::bad_alloc.
  explicit kept_threads(const cpu& given) : backend_(given) {
    if (given.pool == nullptr && given.thread_count() > 1) backend_.pool = &pool_.emplace(given.thread_count());
  }
  kept_threads(const kept_threads&) = delete;
  kept_threads& operator=(const kept_threads&) = delete;

  const cpu& backend() const noexcept { return backend_; }

 private:
  cpu backend_;
  std::optional<worker_pool> pool_;
};

}  // namespace ecq::detail
