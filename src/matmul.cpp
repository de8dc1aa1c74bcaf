#include "ecq/matmul/fused_integers-inl.hpp"
#include "ecq/matmul/fused_products-inl.hpp"
#include "ecq/matmul/matmul_plan-inl.hpp"
#include "ecq/matmul/pair_escapes-inl.hpp"

namespace ecq {

template result<matmul_input> matmul_plan::prepare(matrix_view<const float> x, matrix_view<float> y,
                                                   activation_type type, instruction_set isa,
                                                   half_product product) const;
template result<matmul_input> matmul_plan::prepare(matrix_view<const bf16> x, matrix_view<float> y,
                                                   activation_type type, instruction_set isa,
                                                   half_product product) const;

}  // namespace ecq
