// Damaged safetensors files and containers give an error, or what other readers find in them too.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "fuzz/container_readers.hpp"
#include "fuzz/file_mutator.hpp"
#include "support/files.hpp"

namespace {

const char* const files[] = {"container/sample.safetensors", "container/coded.safetensors",
                             "container/exact.safetensors"};

TEST(SafetensorsMutations, AreRefusedOrReadAsOthersDo) {
  std::size_t accepted = 0;
  constexpr std::size_t rounds = ECQ_TEST_MUTATIONS / 50;
  ecq_test::file_mutator mutator(1);
  for (std::size_t round = 0; round < rounds; ++round) {
    std::string file = ecq_test::read_file(ecq_test::golden(files[round % 2]));
    mutator.mutate(file);
    const auto got = ecq_test::read_safetensors(file);
    ASSERT_EQ(got.contradiction, "") << "round " << round;
    accepted += got.accepted ? 1 : 0;
  }
  EXPECT_GT(accepted, 0U);
  EXPECT_LT(accepted, rounds);
}

TEST(ContainerMutations, AreRefusedOrReadWhole) {
  const ecq_test::temporary_folder folder;
  std::size_t accepted = 0;
  constexpr std::size_t rounds = ECQ_TEST_MUTATIONS / 200;
  ecq_test::file_mutator mutator(2);
  for (std::size_t round = 0; round < rounds; ++round) {
    std::string file = ecq_test::read_file(ecq_test::golden(files[1]));
    if (round != 0) mutator.mutate(file);
    ecq_test::seal_container(file);
    ecq_test::write_file(folder / "changed", file);
    const auto got = ecq_test::read_container(folder / "changed");
    ASSERT_EQ(got.contradiction, "") << "round " << round;
    accepted += got.accepted ? 1 : 0;
    if (round == 0) {
      ASSERT_EQ(accepted, 1U);
    }
  }
  EXPECT_GT(accepted, 1U);
  EXPECT_LT(accepted, rounds);
}

}  // namespace
