#include "ecq/base/instruction_set.hpp"

#include <gtest/gtest.h>

#include "ecq/base/backend.hpp"

namespace {

using ecq::instruction_set;

TEST(InstructionSet, IsNeverMoreThanTheMachineHas) {
  const auto machine = ecq::machine_instruction_set();
  EXPECT_GE(machine, instruction_set::scalar);
  for (const instruction_set wanted : ecq::instruction_sets) {
    const auto chosen = ecq::chosen_instruction_set(wanted);
    EXPECT_LE(chosen, (std::min)(wanted, machine));
    EXPECT_TRUE(ecq::machine_has(chosen));
  }
  EXPECT_EQ(ecq::machine_has(instruction_set::neon), ECQ_NEON == 1);
  EXPECT_TRUE(ecq::machine_has(instruction_set::scalar));
  EXPECT_TRUE(ecq::machine_has(machine));
  EXPECT_LE(ecq::chosen_instruction_set(ecq::cpu{}.isa), machine);
}

#if ECQ_AVX512_EMULATED
TEST(InstructionSet, IsTheWidestWhereItIsEmulated) {
  EXPECT_EQ(ecq::machine_instruction_set(), instruction_set::avx512);
  EXPECT_TRUE(ecq::machine_has_integer_dots());
  EXPECT_TRUE(ecq::machine_has_integer_dots_avx2());
}
#endif

// A machine counts as having dot products of bytes only if it also has the instructions that kernels use with them.
TEST(InstructionSet, HasIntegerDotsOnlyBesideTheRest) {
#if ECQ_X86
  EXPECT_TRUE(!ecq::machine_has_integer_dots() || ecq::machine_instruction_set() == instruction_set::avx512);
  EXPECT_TRUE(!ecq::machine_has_integer_dots_avx2() || ecq::machine_instruction_set() >= instruction_set::avx2);
#elif !ECQ_NEON_DOT
  EXPECT_FALSE(ecq::machine_has_integer_dots());
#endif
#if !ECQ_X86
  EXPECT_FALSE(ecq::machine_has_integer_dots_avx2());
#endif
}

}  // namespace
