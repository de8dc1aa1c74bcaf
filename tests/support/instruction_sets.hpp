#pragma once
// The instruction sets that a test goes through.

#include <algorithm>
#include <vector>

#include "ecq/base/instruction_set.hpp"

namespace ecq_test {

/// Those from `lowest` on that this machine has, or its best one if it has none of them. Any other would be its best
/// one once more.
inline std::vector<ecq::instruction_set> sets_from(ecq::instruction_set lowest) {
  using ecq::instruction_set;
  const instruction_set best = ecq::machine_instruction_set();
  std::vector<instruction_set> sets;
  for (const auto set : {instruction_set::scalar, instruction_set::avx2, instruction_set::avx512}) {
    if (set >= (std::min)(lowest, best) && set <= best) sets.push_back(set);
  }
  return sets;
}

}  // namespace ecq_test
