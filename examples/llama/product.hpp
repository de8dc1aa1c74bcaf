#pragma once
/// \file
/// Products of activations and a dense matrix, on all threads.

#include "ecq/base/matrix_view.hpp"
#include "ecq/format/bf16.hpp"

namespace llama {

class thread_pool;

/// Whether products use AVX2 (ECQ_CPU=scalar turns that off). Results do not depend on it.
bool has_vectors() noexcept;

/// Computes out (tokens x rows) = in (tokens x columns) times the transpose of weights (rows x columns); all are
/// row-major. Each element is llama::dot of a row and a token, whatever the number of threads and of tokens.
void multiply(thread_pool& pool, ecq::matrix_view<const ecq::bf16> weights, ecq::matrix_view<const float> in,
              ecq::matrix_view<float> out) noexcept;

}  // namespace llama
