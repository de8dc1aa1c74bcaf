// compressor: Coder is no entropy coder
#include <ecq/compressor.hpp>

struct coder {};

int main() { return ecq::compressor<ecq::fp8_e4m3, coder>{}.stream.pairs ? 1 : 0; }
