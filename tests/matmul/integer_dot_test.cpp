// Integer dot products: every kernel of this machine against 64-bit sums, and the quantisation of activations.

#include "ecq/matmul/integer_dot.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/quantized_activations.hpp"

namespace {

using ecq::detail::integer_kernels;
using ecq::detail::quantize_row;
using ecq::detail::quantized_activations;

std::vector<std::pair<const char*, const integer_kernels*>> machine_kernels() {
  std::vector<std::pair<const char*, const integer_kernels*>> found = {
      {"plain", &ecq::detail::integer_kernels_by<ecq::detail::plain_integer_dots>}};
#if ECQ_X86
  if (ecq::machine_instruction_set() >= ecq::instruction_set::avx2) {
    found.emplace_back("avx2", &ecq::detail::integer_kernels_by<ecq::detail::avx2::wide_dots>);
  }
  if (ecq::machine_has_integer_dots_avx2()) {
    found.emplace_back("avx2 with VNNI", &ecq::detail::integer_kernels_by<ecq::detail::avx2::byte_dots>);
  }
  if (ecq::machine_has_integer_dots()) {
    found.emplace_back("avx512", &ecq::detail::integer_kernels_by<ecq::detail::avx512::integer_dots>);
  }
#elif ECQ_NEON_DOT
  if (ecq::machine_has_integer_dots()) {
    found.emplace_back("neon", &ecq::detail::integer_kernels_by<ecq::detail::neon::integer_dots>);
  }
#endif
  return found;
}

int code_at(const std::vector<std::byte>& codes, std::size_t at, bool is_signed) {
  const auto code = std::to_integer<std::uint8_t>(codes[at]);
  return is_signed ? static_cast<std::int8_t>(code) : code;
}

/// Sums up products of a run of codes, from `column` on, with rows of activations from `first` on.
void sum_products(const ecq::detail::integer_kernels& kernels, const ecq::detail::integer_code_rows& of,
                  const quantized_activations& x, std::size_t first, std::size_t column, std::size_t batch,
                  std::int32_t* sums, std::size_t stride) {
  const std::int8_t* const rows = of.flipped ? x.ordered_bytes(first, 0) : x.row(first);
  ecq::detail::integer_sums(kernels, of, rows + column, of.flipped ? x.ordered_stride() : x.stride(), batch, sums,
                            stride);
  ecq::detail::add_differences(kernels, of.is_signed, of.rows, x, first, column, of.count, batch, sums, stride);
}

TEST(IntegerDot, IsExactWithEveryKernel) {
  std::mt19937 random(5);
  constexpr std::size_t most = 700;
  constexpr std::size_t most_batch = 70;
  std::vector<float> x(most_batch * most);
  for (float& one : x) one = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
  quantized_activations activations;
  activations.resize(most_batch, most);
  for (std::size_t b = 0; b < most_batch; ++b) activations.set_row(b, x.data() + b * most);
  for (const std::size_t count : {1U, 15U, 16U, 17U, 63U, 64U, 65U, 128U, 200U, 601U}) {
    for (const std::size_t rows : {1U, 3U, 4U, 9U}) {
      // The codes end with their memory, so that sanitizers see reads beyond them.
      std::vector<std::byte> codes(rows * count);
      for (auto& code : codes) code = static_cast<std::byte>(random());
      for (const std::size_t batch : {1U, 2U, 3U, 4U, 7U, 66U}) {
        for (const std::size_t column : {0U, 37U, 99U}) {
          for (const bool is_signed : {false, true}) {
            for (const auto& [name, kernels] : machine_kernels()) {
              SCOPED_TRACE(std::string(name) + ", " + std::to_string(count) + " columns");
              const std::size_t stride = batch + 4;
              std::vector<std::int32_t> sums(rows * stride, 77);
              sum_products(*kernels, {codes.data(), count, rows, count, is_signed, false}, activations, 2, column,
                           batch, sums.data(), stride);
              for (std::size_t row = 0; row < rows; ++row) {
                for (std::size_t b = 0; b < stride; ++b) {
                  std::int64_t sum = b < batch ? 0 : 77;
                  for (std::size_t i = 0; i < count && b < batch; ++i) {
                    sum += code_at(codes, row * count + i, is_signed) * activations.row(2 + b)[column + i];
                  }
                  ASSERT_EQ(sums[row * stride + b], sum) << "row " << row << ", batch " << b;
                }
              }
            }
          }
        }
      }
    }
  }
}

// Codes and activations in another order have the same sums.
TEST(IntegerDot, TakesOrderedCodes) {
  using ecq::detail::fusion;
  using ecq::detail::integer_order;
  std::mt19937 random(6);
  constexpr std::size_t columns = 1024, rows = 5, batch = 7;
  std::vector<float> x(batch * columns);
  for (float& one : x) one = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
  for (const auto& [order, how] :
       {std::pair(integer_order::rounds, fusion::pairs), std::pair(integer_order::bytes_avx2, fusion::codes),
        std::pair(integer_order::bytes_avx2, fusion::pairs), std::pair(integer_order::words_avx2, fusion::codes),
        std::pair(integer_order::words_avx2, fusion::pairs)}) {
    const std::size_t group = ecq::detail::group_of(how);
    quantized_activations activations;
    activations.resize(batch, columns);
    for (std::size_t b = 0; b < batch; ++b) activations.set_row(b, x.data() + b * columns);
    activations.order_as(order, how, {columns, group, 1});
    for (const std::size_t count : {std::size_t{256}, std::size_t{768}}) {
      std::vector<std::byte> codes(rows * count);
      for (std::byte& code : codes) code = static_cast<std::byte>(random());
      for (const auto& [name, kernels] : machine_kernels()) {
        std::vector<std::int32_t> expected(rows * batch), sums(rows * batch);
        sum_products(*kernels, {codes.data(), count, rows, count, true, false}, activations, 1, 256, batch - 1,
                     expected.data(), batch);
        if (order != integer_order::words_avx2) {
          std::vector<std::byte> ordered(rows * count);
          const std::byte flip{kernels->signed_codes ? std::uint8_t{0} : std::uint8_t{0x80}};
          for (std::size_t i = 0; i < codes.size(); ++i) {
            const std::size_t place = order == integer_order::rounds
                                          ? ecq::detail::place_of_byte_in_rounds(i)
                                          : i / group * group + ecq::detail::byte_place_avx2(how, i % group);
            ordered[place] = codes[i] ^ flip;
          }
          sum_products(*kernels, {ordered.data(), count, rows, count, true, true}, activations, 1, 256, batch - 1,
                       sums.data(), batch);
        } else {
#if ECQ_X86
          if (!ecq::machine_has(ecq::instruction_set::avx2)) continue;
          std::vector<std::int16_t> ordered(rows * count);
          for (std::size_t i = 0; i < codes.size(); ++i) {
            const std::size_t place = i / group * group + ecq::detail::half_place_avx2(how, i % group);
            ordered[place] = static_cast<std::int8_t>(codes[i]);
          }
          ecq::detail::integer_sums(
              ecq::detail::integer_kernels_by<ecq::detail::avx2::word_dots, std::int16_t>,
              {reinterpret_cast<const std::byte*>(ordered.data()), 2 * count, rows, count, true, true},
              activations.ordered_words(1, 0) + 256, activations.ordered_stride(), batch - 1, sums.data(), batch);
#else
          continue;
#endif
        }
        EXPECT_EQ(sums, expected) << name << ", order " << static_cast<int>(order) << ", " << count << " columns";
      }
    }
  }
}

// The largest possible sums of either sign.
TEST(IntegerDot, DoesNotOverflow) {
  constexpr std::size_t count = ecq::detail::most_integer_columns;
  for (const float sign : {1.0F, -1.0F}) {
    const std::vector<float> x(count, sign);
    quantized_activations activations;
    activations.resize(4, count);
    for (std::size_t b = 0; b < 4; ++b) activations.set_row(b, x.data());
    EXPECT_EQ(activations.sum(3, 0, count), static_cast<std::int64_t>(sign) * 127 * std::int64_t{count});
    for (const unsigned code : {0U, 0x7FU, 0x80U, 0xFFU}) {
      const std::vector<std::byte> codes(4 * count, static_cast<std::byte>(code));
      for (const bool is_signed : {false, true}) {
        for (const auto& [name, kernels] : machine_kernels()) {
          std::int32_t sums[16] = {};
          sum_products(*kernels, {codes.data(), count, 4, count, is_signed, false}, activations, 0, 0, 4, sums, 4);
          const std::int64_t expected =
              static_cast<std::int64_t>(sign) * 127 * std::int64_t{count} * code_at(codes, 0, is_signed);
          for (const std::int32_t sum : sums) EXPECT_EQ(sum, expected) << name << ", code " << code;
        }
      }
    }
  }
}

TEST(QuantizedActivations, AreTheNearestIntegersTiesToEven) {
  const float scale = 0.25F;  // times 127, the largest of each row
  const std::vector<float> x = {127, -127, 0, -0.0F, 0.5F, 1.5F, -0.5F, -1.5F, 2.5F, 126.49F, 126.5F, 1, 0x1p-149F};
  const std::vector<int> expected = {127, -127, 0, 0, 0, 2, 0, -2, 2, 126, 126, 1, 0};
  for (const float factor : {1.0F, scale, 0x1p120F, 0x1p-120F, 0x1p-140F}) {
    std::vector<float> scaled;
    for (const float one : x) scaled.push_back(one * factor);
    std::vector<std::int8_t> q(x.size());
    EXPECT_EQ(quantize_row(scaled.data(), scaled.size(), q.data()), static_cast<double>(factor));
    // 126.49 * 2^-140 has fewer bits.
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(q[i], expected[i]) << x[i] << " * " << factor;
  }
}

TEST(QuantizedActivations, AreOffByHalfAStep) {
  std::mt19937 random(9);
  for (const float largest : {1.0F, 3.4e38F, 1e-38F, 0x1p-140F, 7.7e-30F, 65504.0F}) {
    std::vector<float> x;
    for (std::size_t i = 0; i < 1000; ++i) {
      x.push_back(largest * (static_cast<float>(random() % 65537) / 32768 - 1));
    }
    x[100] = -largest;
    std::vector<std::int8_t> q(x.size());
    const double scale = quantize_row(x.data(), x.size(), q.data());
    EXPECT_EQ(scale, static_cast<double>(largest) / 127);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(std::fabs(static_cast<double>(x[i]) - scale * q[i]), scale * 0.50001) << x[i];
      EXPECT_LE(std::abs(q[i]), 127);
    }
    EXPECT_EQ(q[100], -127);
  }
}

TEST(QuantizedActivations, OfZerosAndOfWhatIsNotFinite) {
  std::vector<float> x(70, 0.0F);
  std::vector<std::int8_t> q(70, 3);
  EXPECT_EQ(quantize_row(x.data(), x.size(), q.data()), 0);
  EXPECT_EQ(q, std::vector<std::int8_t>(70, 0));
  for (const float odd : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()}) {
    x[66] = odd;
    x[1] = 5;
    q.assign(70, 3);
    EXPECT_TRUE(std::isnan(quantize_row(x.data(), x.size(), q.data())));
    EXPECT_EQ(q, std::vector<std::int8_t>(70, 0));
  }
  EXPECT_EQ(quantize_row(x.data(), 0, q.data()), 0);
}

TEST(QuantizedActivations, SumAnyRange) {
  std::vector<float> x(300);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 255) - 127;
  quantized_activations activations;
  activations.resize(2, x.size());
  activations.set_row(1, x.data());
  for (std::size_t first = 0; first <= x.size(); first += 7) {
    std::int32_t sum = 0;
    for (std::size_t end = first; end <= x.size(); ++end) {
      ASSERT_EQ(activations.sum(1, first, end - first), sum) << first << " to " << end;
      if (end < x.size()) sum += activations.row(1)[end];
    }
  }
}

}  // namespace
