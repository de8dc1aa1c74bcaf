#include "ecq/base/checksum.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support/instruction_sets.hpp"

namespace {

std::uint64_t digest_of(std::string_view text, std::uint64_t seed = 0) {
  return ecq::xxh64(std::as_bytes(std::span(text)), seed);
}

TEST(Xxh64, GivesTheKnownVectors) {
  EXPECT_EQ(digest_of(""), 0xEF46DB3751D8E999U);
  EXPECT_EQ(digest_of("a"), 0xD24EC4F1A98C6E5BU);
  EXPECT_EQ(digest_of("abc"), 0x44BC2CF5AD770999U);
  EXPECT_EQ(digest_of("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1U);
}

// The specification's generator: byte i is the top byte of a value that is multiplied by a constant in every step.
TEST(Xxh64, GivesTheVectorsOfTheSanityBuffer) {
  std::vector<std::byte> buffer(222);
  std::uint64_t generator = 2654435761U;
  for (std::byte& value : buffer) {
    value = static_cast<std::byte>(generator >> 56);
    generator *= 11400714785074694797U;
  }
  const auto digest = [&](std::size_t size, std::uint64_t seed) {
    return ecq::xxh64(std::span(buffer).first(size), seed);
  };
  constexpr std::uint64_t seed = 0x9E3779B1U;
  EXPECT_EQ(digest(0, seed), 0xAC75FDA2929B17EFU);
  EXPECT_EQ(digest(1, 0), 0xE934A84ADB052768U);
  EXPECT_EQ(digest(1, seed), 0x5014607643A9B4C3U);
  EXPECT_EQ(digest(4, 0), 0x9136A0DCA57457EEU);
  EXPECT_EQ(digest(14, 0), 0x8282DCC4994E35C8U);
  EXPECT_EQ(digest(14, seed), 0xC3BD6BF63DEB6DF0U);
  EXPECT_EQ(digest(222, 0), 0xB641AE8CB691C174U);
  EXPECT_EQ(digest(222, seed), 0x20CB8AB7AE10C14AU);
}

TEST(Xxh64, OfManyIsThatOfEach) {
  std::vector<std::byte> buffer(5000);
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<std::byte>((i * i * 2654435761U) >> 24);
  for (const auto isa : ecq_test::machine_sets()) {
    for (std::size_t count = 0; count <= 9; ++count) {
      for (const std::size_t size : {0U, 1U, 31U, 32U, 33U, 64U, 500U, 4096U}) {
        std::vector<std::span<const std::byte>> inputs;
        std::vector<std::uint64_t> hashes;
        std::vector<std::uint64_t> expected;
        for (std::size_t i = 0; i < count; ++i) {
          inputs.push_back(std::span(buffer).subspan(17 * i, size + i * i));
          hashes.push_back(i << 60 | i);
          expected.push_back(ecq::xxh64(inputs.back(), hashes.back()));
        }
        ecq::xxh64_many(inputs, hashes, isa);
        ASSERT_EQ(hashes, expected) << name_of(isa) << ' ' << count << ' ' << size;
      }
    }
  }
}

TEST(Xxh64, IsTheSameAtCompileTime) {
  static constexpr std::array<std::byte, 40> bytes = {std::byte{1}, std::byte{2}, std::byte{250}};
  constexpr std::uint64_t constant = ecq::xxh64(bytes, 7);
  EXPECT_EQ(ecq::xxh64(std::vector<std::byte>(bytes.begin(), bytes.end()), 7), constant);
}

}  // namespace
