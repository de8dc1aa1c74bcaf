#include "ecq/base/instruction_set.hpp"

#include <gtest/gtest.h>

#include "ecq/base/backend.hpp"

namespace {

using ecq::instruction_set;

TEST(InstructionSet, IsNeverMoreThanTheMachineHas) {
  const auto machine = ecq::machine_instruction_set();
  EXPECT_GE(machine, instruction_set::scalar);
  for (const auto wanted : {instruction_set::scalar, instruction_set::avx2, instruction_set::avx512}) {
    EXPECT_EQ(ecq::chosen_instruction_set(wanted), (std::min)(wanted, machine));
  }
  EXPECT_LE(ecq::chosen_instruction_set(ecq::cpu{}.isa), machine);
}

}  // namespace
