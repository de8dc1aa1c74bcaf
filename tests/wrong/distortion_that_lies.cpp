// is_homogeneous
#include <ecq/quantize/entquant.hpp>

struct cubic {
  static constexpr const char* name = "cubic";
  static constexpr int degree = 1;  // of is of degree 3
  static constexpr float of(float difference) noexcept {
    return (difference < 0 ? -1.0F : 1.0F) * difference * difference * difference;
  }
};

int main() { return ecq::basic_entquant<ecq::row_root<cubic>>{}.lambda ? 1 : 0; }
