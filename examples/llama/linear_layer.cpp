// Products of layers, and the choice of those that are done together.

#include "linear_layer.hpp"

#include <vector>

#include "ecq/matmul/grouped_matmul.hpp"
#include "product.hpp"
#include "thread_pool.hpp"

namespace llama {

ecq::result<void> multiply_together(thread_pool& pool, std::span<const layer_product> products) {
  std::vector<ecq::grouped_product<float>> group;
  ecq::activation_type activations{};  // one for all coded matrices of a model
  for (const layer_product& product : products) {
    const auto coded = product.matrix->coded();
    if (!coded || products.size() == 1) {
      ECQ_CHECK(product.matrix->multiply(pool, product.in, product.out));
      continue;
    }
    group.push_back({coded->plan, product.in, product.out});
    activations = coded->activations;
  }
  return ecq::matmul(pool.backend(), group, {.activations = activations});
}

ecq::result<void> dense_layer::multiply(thread_pool& pool, ecq::matrix_view<const float> in,
                                        ecq::matrix_view<float> out) const {
  llama::multiply(pool, weights_, in, out);
  return {};
}

}  // namespace llama
