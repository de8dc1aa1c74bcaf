#include "ecq/stream/element_warp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "ecq/entropy/chunk_warp.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/stream/bit_io.hpp"
#include "support/codes.hpp"
#include "support/host_warp.hpp"
#include "support/recording_warp.hpp"

namespace {

// Hands `symbols` to an element sink as a decoder would, and returns the elements. Those from `first` up to `last` are
// written, the others stay 0.
template <class Split>
std::vector<std::byte> joined_by_warp(const std::vector<std::uint8_t>& symbols, const std::vector<std::byte>& raw,
                                      unsigned bits, std::uint32_t first, std::uint32_t last, bool aligned) {
  std::vector<std::byte> out(symbols.size() * sizeof(typename Split::element));
  ecq::warp_element_sink<ecq_test::recording_warp, Split> sink{raw.data(), bits, {out.data(), first, last, aligned}};
  const auto count = static_cast<std::uint32_t>(symbols.size());
  for (std::uint32_t group = 0; group * ecq::group_symbols < count; ++group) {
    const auto codes = ecq::host_lanes::each([&](std::uint32_t lane) {
      std::uint32_t four = 0;
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t at = group * ecq::group_symbols + 4 * lane + i;
        four |= (at < count ? std::uint32_t{symbols[at]} : 0U) << (8 * i);
      }
      return four;
    });
    const std::uint32_t left = count - group * ecq::group_symbols;
    if (left >= ecq::group_symbols) ecq::detail::fetch_ahead<ecq_test::recording_warp>(sink, group);
    sink(codes, group, left < ecq::group_symbols ? left : ecq::group_symbols);
  }
  return out;
}

// Only the chunk's own raw bits may be prefetched; a sanitizer sees what is loaded.
TEST(ElementWarp, JoinsWhatTheScalarCodeJoins) {
  std::size_t prefetched = 0;
  for (const auto format :
       {std::optional<ecq::dtype>(), std::optional(ecq::dtype::fp32), std::optional(ecq::dtype::fp16),
        std::optional(ecq::dtype::bf16), std::optional(ecq::dtype::fp8_e4m3), std::optional(ecq::dtype::fp8_e5m2)}) {
    ecq::visit_split(format, [&]<class Split>() {
      for (unsigned bits = ecq::low_bits<Split>; bits <= ecq::element_bits<Split>; ++bits) {
        for (const std::size_t count : {1U, 3U, 4U, 127U, 128U, 300U}) {
          ecq_test::code_source random(bits);
          const auto bytes = random.uniform(count * sizeof(typename Split::element));
          const std::byte* const elements = std::as_bytes(std::span(bytes)).data();
          std::vector<std::uint8_t> symbols(count);
          ecq::extract_symbols<Split>(elements, count, symbols.data());
          const unsigned dropped = bits - ecq::low_bits<Split>;
          for (auto& symbol : symbols) symbol = static_cast<std::uint8_t>(symbol >> dropped << dropped);
          std::vector<std::byte> raw(static_cast<std::size_t>(ecq::raw_bytes(count, bits)) + ecq::stream_tail_bytes);
          ecq::pack_raw_bits<Split>(bits, elements, count, raw.data());
          for (const bool aligned : {true, false}) {
            const auto last = static_cast<std::uint32_t>(count);
            const auto got = joined_by_warp<Split>(symbols, raw, bits, 0, last, aligned);
            ASSERT_EQ(std::memcmp(got.data(), elements, got.size()), 0) << bits << " raw bits of " << count;
            const std::uint32_t from = last / 5;
            const std::uint32_t to = last - last / 7;
            std::vector<std::byte> part(got.size());
            constexpr std::size_t width = sizeof(typename Split::element);
            std::copy(elements + from * width, elements + to * width,
                      part.begin() + static_cast<std::ptrdiff_t>(from * width));
            ASSERT_EQ((joined_by_warp<Split>(symbols, raw, bits, from, to, aligned)), part);
            for (const auto& asked : ecq_test::recording_warp::prefetched) {
              ASSERT_TRUE(asked.within(raw.data(), raw.data() + ecq::raw_bytes(count, bits)));
            }
            prefetched += ecq_test::recording_warp::prefetched.size();
            ecq_test::recording_warp::prefetched.clear();
          }
        }
      }
    });
  }
  EXPECT_GT(prefetched, 0U);
}

}  // namespace
