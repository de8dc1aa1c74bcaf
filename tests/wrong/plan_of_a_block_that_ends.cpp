// deleted function
#include <ecq/compressor.hpp>
#include <ecq/matmul/matmul_plan.hpp>

int main() { return ecq::matmul_plan::of(ecq::cpu{}, *ecq::compressor<>{{.target_bits = 3.0}}.compress({})) ? 0 : 1; }
