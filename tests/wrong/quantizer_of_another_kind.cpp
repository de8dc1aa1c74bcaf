// compressor: Quantizer makes no codes of Format
#include <ecq/compressor.hpp>
#include <ecq/quantize/entrollm.hpp>

int main() { return ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entrollm>{}.stream.pairs ? 1 : 0; }
