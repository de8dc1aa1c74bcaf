// compressor: Format is no number format of one byte a code
#include <ecq/compressor.hpp>

int main() { return ecq::compressor<ecq::bf16>{}.stream.pairs ? 1 : 0; }
