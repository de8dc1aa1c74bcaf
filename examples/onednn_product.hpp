#pragma once
// BF16 products of dense matrices by oneDNN, which uses AMX or BF16 dot-product instructions where a processor has
// them.

#include <cstddef>
#include <dnnl.hpp>
#include <ecq/matmul/matmul.hpp>
#include <map>
#include <tuple>

/// A dense_product for ecq::matmul with BF16 activations. Each thread keeps the products that oneDNN has compiled, one
/// for each shape.
struct onednn_product {
  /// Whether oneDNN supports BF16 on this processor. If not, a product throws.
  static bool is_there() {
    try {
      const ecq::bf16 one(1.0F);
      float sum = 0;
      onednn_product()({&one, 1, 1}, {&one, 1, 1}, {&sum, 1, 1});
      return sum == 1;
    } catch (const dnnl::error&) {
      return false;
    }
  }

  void operator()(ecq::matrix_view<const ecq::bf16> x, ecq::matrix_view<const ecq::bf16> weights,
                  ecq::matrix_view<float> y) const {
    using dnnl::memory;
    thread_local const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    thread_local dnnl::stream stream(engine);
    thread_local std::map<shape, compiled> kept;
    const shape of = {x.rows(), weights.rows(), x.columns(), x.row_stride(), weights.row_stride(), y.column_stride()};
    auto at = kept.find(of);
    if (at == kept.end()) at = kept.emplace(of, compile(of, engine)).first;
    const compiled& with = at->second;
    const memory a(with.weights, engine, const_cast<ecq::bf16*>(weights.data()));
    const memory b(with.x, engine, const_cast<ecq::bf16*>(x.data()));
    const memory sums(with.y, engine, y.data());
    with.product.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, sums}});
    stream.wait();
  }

 private:
  using shape = std::tuple<std::size_t, std::size_t, std::size_t, std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t>;

  struct compiled {
    dnnl::memory::desc weights, x, y;
    dnnl::matmul product;
  };

  /// Compiles the product weights x^T, which is added to a row-major matrix: y is its transpose.
  static compiled compile(const shape& of, const dnnl::engine& engine) {
    using dnnl::memory;
    const auto& [batch, rows, columns, x_stride, weights_stride, y_stride] = of;
    const auto m = static_cast<memory::dim>(rows), k = static_cast<memory::dim>(columns),
               n = static_cast<memory::dim>(batch);
    const memory::desc weights({m, k}, memory::data_type::bf16, {weights_stride, 1});
    const memory::desc x({k, n}, memory::data_type::bf16, {1, x_stride});
    const memory::desc y({m, n}, memory::data_type::f32, {y_stride, 1});
    dnnl::post_ops add;
    add.append_sum();
    dnnl::primitive_attr options;
    options.set_post_ops(add);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc chosen(engine, weights, x, y, options);
#else
    const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(weights, x, y), options, engine);
#endif
    return {weights, x, y, dnnl::matmul(chosen)};
  }
};
