#pragma once

#include <cstdint>
#include <ecq/format/fp8_e4m3.hpp>
#include <vector>

template <int Unit>
std::vector<std::uint8_t> encode_ramp() {
  std::vector<std::uint8_t> codes;
  for (int step = -5000; step <= 5000; ++step) {
    codes.push_back(ecq::fp8_e4m3::encode(static_cast<float>(step) * 0.1F));
  }
  return codes;
}

std::vector<std::uint8_t> encode_plain();
std::vector<std::uint8_t> encode_free();
