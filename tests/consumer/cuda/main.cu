#include <ecq/ecq.cuh>

// Needs no device: there is nothing to decode.
int main() {
  const ecq::device_block block;
  return ecq::decompress<ecq::bf16>(ecq::cuda{}, block, {}, ecq::device_verdict(nullptr)) ? 0 : 1;
}
