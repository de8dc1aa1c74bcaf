// Compresses a block of an Eigen matrix and decodes it into another.

#include <Eigen/Core>
#include <cstdio>
#include <ecq/ecq.hpp>

int report(const ecq::error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

int main() {
  Eigen::MatrixXf weights = Eigen::MatrixXf::Random(512, 512);  // stored by columns

  auto packed = ecq::compressor<>{{.target_bits = 4.0}}.compress(weights.topRows(256));
  if (!packed) return report(packed.error());

  Eigen::MatrixXf decoded(256, 512);
  auto done = ecq::decompress(ecq::cpu{}, *packed, decoded);
  if (!done) return report(done.error());

  const float error = (weights.topRows(256) - decoded).norm() / decoded.norm();
  std::printf("%.2f bits per weight, relative L2 %.3f\n", packed->bits_per_weight(), static_cast<double>(error));
  return error < 0.2F ? 0 : 1;
}
