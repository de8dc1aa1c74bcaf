#pragma once
/// \file
/// The CPU backend, `ecq::cpu{.threads = n}`, and the parallel loop that all operations run on it.

#include <cstddef>
#include <memory>
#include <type_traits>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/base/result.hpp"

namespace ecq {

class worker_pool;

/// CPU backend. Work runs on `threads` threads, including the caller's (0: as many as the machine has), with the
/// kernels of `isa` or of the best instruction set below it that the machine has. With a pool, which the caller owns,
/// its threads do the work instead of new ones. Results depend on none of these, except that products in FP32 (matmul)
/// depend on `isa`.
struct cpu {
  unsigned threads = 1;
  instruction_set isa = instruction_set::automatic;
  worker_pool* pool = nullptr;

  unsigned thread_count() const noexcept;
};

namespace detail {

/// Implements parallel_for() with `call(task, index)`, compiled once for all kinds of task.
result<void> run_tasks(const cpu& backend, std::size_t count, void* task,
                       result<void> (*call)(void* task, std::size_t index));

}  // namespace detail

/// Calls `task(index)` for every index below `count`, in no particular order; `task` returns result<void>. If tasks
/// fail, parallel_for returns the error of the lowest index, so errors do not depend on timing; std::bad_alloc becomes
/// errc::out_of_memory. Once a task has failed, tasks of higher index may be skipped.
template <class Task>
result<void> parallel_for(const cpu& backend, std::size_t count, Task&& task) {
  using task_type = std::remove_reference_t<Task>;
  return detail::run_tasks(
      backend, count, const_cast<std::remove_const_t<task_type>*>(std::addressof(task)),
      [](void* one, std::size_t index) -> result<void> { return (*static_cast<task_type*>(one))(index); });
}

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/base/backend-inl.hpp"
#endif
