#pragma once
// Instruction sets that tests go through.

#include <algorithm>
#include <vector>

#include "ecq/base/instruction_set.hpp"

namespace ecq_test {

/// Returns the instruction sets from `lowest` on that this machine has, or its best one if it has none of them. A set
/// that the machine does not have would only be its best one once more.
inline std::vector<ecq::instruction_set> sets_from(ecq::instruction_set lowest) {
  using ecq::instruction_set;
  const instruction_set best = ecq::machine_instruction_set();
  std::vector<instruction_set> sets;
  for (const instruction_set set : ecq::instruction_sets) {
    if (set >= (std::min)(lowest, best) && ecq::machine_has(set)) sets.push_back(set);
  }
  return sets;
}

/// Returns all instruction sets that this machine has.
inline std::vector<ecq::instruction_set> machine_sets() { return sets_from(ecq::instruction_set::scalar); }

}  // namespace ecq_test
