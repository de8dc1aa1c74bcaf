#pragma once
/// \file
/// Products of dense matrices that a caller supplies: by a BLAS, by oneDNN, or by units of a processor for which ecq
/// has no kernels.

#include <concepts>

#include "ecq/base/matrix_view.hpp"
#include "ecq/format/bf16.hpp"

namespace ecq {

/// A product of dense matrices: product(x, weights, y) adds x weights^T to y, where x is n x columns, `weights` holds
/// some rows of W, and y is n x those rows. It is called from several threads, each with its own y, and must not throw.
/// It must not multiply by ecq on the calling thread, not even in tasks that it takes over while it waits for others:
/// `weights`, and in matmul_plan::run() also x and y, lie in memory that each thread has only once.
template <class Product, class Element = float>
concept dense_product = requires(const Product& product, matrix_view<const Element> x,
                                 matrix_view<const Element> weights, matrix_view<float> y) { product(x, weights, y); };

/// Reference to a dense_product of BF16, or to none.
class half_product {
 public:
  constexpr half_product() noexcept = default;

  /// `product` must outlive this.
  template <dense_product<bf16> Product>
    requires(!std::same_as<Product, half_product>)
  explicit half_product(const Product& product) noexcept
      : product_(&product),
        call_([](const void* own, matrix_view<const bf16> x, matrix_view<const bf16> weights, matrix_view<float> y) {
          (*static_cast<const Product*>(own))(x, weights, y);
        }) {}

  explicit operator bool() const noexcept { return call_ != nullptr; }

  /// Calls the product. Precondition: there is one.
  void operator()(matrix_view<const bf16> x, matrix_view<const bf16> weights, matrix_view<float> y) const {
    call_(product_, x, weights, y);
  }

 private:
  const void* product_ = nullptr;
  void (*call_)(const void*, matrix_view<const bf16>, matrix_view<const bf16>, matrix_view<float>) = nullptr;
};

}  // namespace ecq
