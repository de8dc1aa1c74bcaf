#pragma once
/// \file
/// Codes on a trellis and their indices, computed step by step as docs/format.md says.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/entropy/trellis.hpp"
#include "support/codes.hpp"

namespace ecq_test {

struct trellis_path {
  std::vector<std::uint8_t> indices;
  std::vector<std::uint8_t> codes;
};

/// Returns the codes of `indices`, of which the first is also the first of the stream.
inline std::vector<std::uint8_t> path_of(const ecq::trellis& walk, const std::vector<std::uint8_t>& indices) {
  std::vector<std::uint8_t> codes;
  unsigned states[32] = {};
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i % (std::size_t{1} << walk.period_bits) == 0) {
      for (unsigned& state : states) state = 0;
    }
    unsigned& state = states[i % 128 / 4];
    codes.push_back(ecq::trellis::code(state % 2, indices[i]));
    state = walk.next(state, indices[i] % 2);
  }
  return codes;
}

/// Returns a path of `count` codes. Its indices are bell-shaped around 0, as code_source::bell() makes them from
/// `spread`; one in 40 is any index no farther from 0 than `farthest`, which is at most 63.
inline trellis_path random_path(const ecq::trellis& walk, std::size_t count, unsigned spread, unsigned farthest = 63) {
  code_source random(count + spread + walk.state_bits);
  trellis_path made{random.bell(count, spread), {}};
  for (std::uint8_t& index : made.indices) {
    index = static_cast<std::uint8_t>(random.next() % 40 == 0 ? (random.next() >> 32) % (2 * farthest + 1) - farthest
                                                              : index - 128U);
  }
  made.codes = path_of(walk, made.indices);
  return made;
}

}  // namespace ecq_test
