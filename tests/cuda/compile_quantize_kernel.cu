// Compiled, not run: the quantisers build as device code.

#include "ecq/cuda/quantize.cuh"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/int8.hpp"

template ecq::result<void> ecq::quantize<ecq::fp8_e4m3>(const cuda&, std::span<const device_quantization>,
                                                        const double*, void*, const device_verdict&);
template ecq::result<void> ecq::quantize<ecq::int8>(const cuda&, std::span<const device_quantization>, const double*,
                                                    void*, const device_verdict&);
template ecq::result<void> ecq::lambda_for_bits<ecq::fp8_e4m3>(const cuda&, std::span<const device_weights>, double,
                                                               double, double*, void*, const device_verdict&,
                                                               const rate_options&);
