// The product of a dense layer.

#include "linear_layer.hpp"

#include "product.hpp"

namespace llama {

ecq::result<void> dense_layer::multiply(thread_pool& pool, ecq::matrix_view<const float> in,
                                        ecq::matrix_view<float> out) const {
  llama::multiply(pool, weights_, in, out);
  return {};
}

}  // namespace llama
