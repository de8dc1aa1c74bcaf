// Compresses with policies that are not part of the library: a distortion and a number format.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ecq/ecq.hpp>
#include <random>
#include <string_view>
#include <vector>

/// |error|^4: few large errors are worse than many small ones.
struct fourth_power {
  static constexpr std::string_view name = "fourth_power";
  static constexpr int degree = 4;

  static constexpr float of(float error) noexcept { return error * error * error * error; }
};

/// Codes 0 to 30 are the whole numbers from -15 to 15.
struct thirty_one_levels {
  using code_type = std::uint8_t;

  static constexpr std::string_view name = "thirty_one_levels";
  static constexpr int bits_per_code = 5;
  static constexpr float largest = 15.0F;

  static code_type encode(float value) noexcept {
    const float bounded = std::fmin(std::fmax(value, -largest), largest);
    return static_cast<code_type>(std::nearbyint(bounded) + largest);
  }
  static float decode(code_type code) noexcept { return static_cast<float>(code) - largest; }
  static bool is_finite(code_type code) noexcept { return code <= 30; }

  code_type bits = 0;
};

int report(const ecq::error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

int main() {
  constexpr std::size_t rows = 256, columns = 1024;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> data(rows * columns), out(rows * columns);
  for (float& weight : data) weight = normal(random);
  const ecq::matrix_view<const float> weights(data.data(), rows, columns);

  using quantizer = ecq::basic_entquant<ecq::row_root<fourth_power>, ecq::per_group>;  // or a search of your own
  auto packed = ecq::compressor<ecq::int8, ecq::tans, quantizer>{{.target_bits = 3.0}}.compress(weights);
  if (!packed) return report(packed.error());
  std::printf("own distortion: %.2f bits per weight\n", packed->bits_per_weight());

  auto leveled = ecq::compressor<thirty_one_levels, ecq::rans, ecq::absmax>{}.compress(weights);
  if (!leveled) return report(leveled.error());
  auto done = ecq::decompress(ecq::cpu{}, *leveled, ecq::matrix_view(out.data(), rows, columns));
  if (!done) return report(done.error());
  std::printf("own number format: %.2f bits per weight\n", leveled->bits_per_weight());
  return std::fabs(packed->bits_per_weight() - 3.0) < 0.02 && leveled->bits_per_weight() < 5.0 ? 0 : 1;
}
