#pragma once
/// \file
/// The kernel that describes rows of a matrix to the kernels that decode them.

#include <cuda_runtime.h>

#include "ecq/base/result.hpp"
#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/launch.cuh"
#include "ecq/cuda/warp_block.hpp"

namespace ecq {

/// Writes the pieces of `rows`, a warp_rows, to `to`. As a kernel argument, `rows` needs nothing on the host that
/// outlives the launch. The kernel is a template, as kernels in headers are.
template <class Rows>
__global__ void __launch_bounds__(32) rows_kernel(Rows rows, warp_matrix* to) {
  if (threadIdx.x != 0) return;
  to[0] = rows.pieces[0];
  to[1] = rows.pieces[1];
}

namespace detail {

/// Launches rows_kernel on gpu.stream. Errors: invalid_argument if `to` is not aligned to 16 bytes, device_error.
inline result<void> launch_rows(const cuda& gpu, const warp_rows& rows, warp_matrix* to) {
  ECQ_CHECK(check_aligned(to, 16, "the memory for rows"));
  return launch(gpu, "describing rows", rows_kernel<warp_rows>, {.blocks = 1, .threads = 32}, rows, to);
}

}  // namespace detail
}  // namespace ecq
