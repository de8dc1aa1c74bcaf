// compressor: Quantizer makes no codes of Format
#include <ecq/compressor.hpp>

struct rounder {
  static constexpr const char* name = "rounder";
};

int main() { return ecq::compressor<ecq::fp8_e4m3, ecq::rans, rounder>{}.stream.pairs ? 1 : 0; }
