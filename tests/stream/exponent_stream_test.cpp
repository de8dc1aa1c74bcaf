#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ecq/stream/bit_io.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "stream/format_decoder.hpp"
#include "support/files.hpp"
#include "support/instruction_sets.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::dtype;
using ecq::errc;

constexpr dtype formats[] = {dtype::fp32, dtype::fp16, dtype::bf16, dtype::fp8_e4m3, dtype::fp8_e5m2};

using bytes = std::vector<std::byte>;

bytes random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  bytes made(size);
  for (std::byte& byte : made) byte = static_cast<std::byte>(random() & 0xFFU);
  return made;
}

/// Returns weights of a layer, in `format`.
bytes gaussian(dtype format, std::size_t count) {
  const auto weights = ecq_test::gaussian(1, count, 7, 0.02F);
  bytes made(count * ecq::size_of(format));
  ecq::visit_format(format, [&]<class Format>() {
    for (std::size_t i = 0; i < count; ++i) {
      const auto code = Format::encode(weights[i]);
      std::memcpy(made.data() + i * sizeof code, &code, sizeof code);
    }
  });
  return made;
}

bytes decoded(const bytes& blob, std::uint64_t first, std::uint64_t count, unsigned threads = 1) {
  const auto stream = ecq::encoded_stream::parse(blob);
  EXPECT_TRUE(stream) << stream.error().to_string();
  bytes out(static_cast<std::size_t>(count) * stream->element_bytes());
  const auto done = ecq::decode_elements(cpu{.threads = threads}, *stream, first, out);
  EXPECT_TRUE(done) << done.error().to_string();
  return out;
}

TEST(ExponentSplit, TakesExponentAndRestoresEveryPattern) {
  for (unsigned pattern = 0; pattern < 65536; ++pattern) {
    using split = ecq::exponent_split<ecq::bf16>;
    const auto bits = static_cast<std::uint16_t>(pattern);
    EXPECT_EQ(split::arrange(bits) >> ecq::low_bits<split>, (pattern >> 7) & 0xFFU);
    EXPECT_EQ(split::restore(split::arrange(bits)), bits);
    using half = ecq::exponent_split<ecq::fp16>;
    EXPECT_EQ(half::arrange(bits) >> ecq::low_bits<half>, (pattern >> 10) & 0x1FU);
    EXPECT_EQ(half::restore(half::arrange(bits)), bits);
    if (pattern > 255) continue;
    using e4m3 = ecq::exponent_split<ecq::fp8_e4m3>;
    const auto byte = static_cast<std::uint8_t>(pattern);
    EXPECT_EQ(e4m3::arrange(byte) >> ecq::low_bits<e4m3>, (pattern >> 3) & 0xFU);
    using e5m2 = ecq::exponent_split<ecq::fp8_e5m2>;
    EXPECT_EQ(e5m2::arrange(byte) >> ecq::low_bits<e5m2>, (pattern >> 2) & 0x1FU);
  }
}

// The k raw bits of element j begin at bit j k. They hold the mantissa and, lowest, the sign.
TEST(ExponentSplit, RawBitsLieAtBitTimesIndex) {
  for (const dtype format : formats) {
    ecq::visit_split(format, [&]<class Split>() {
      for (unsigned bits = ecq::low_bits<Split>; bits <= ecq::element_bits<Split>; ++bits) {
        for (const std::size_t count : {1U, 7U, 8U, 63U, 64U, 65U, 130U, 200U}) {
          using element = typename Split::element;
          const bytes elements = random_bytes(count * sizeof(element), bits);
          bytes packed(static_cast<std::size_t>(ecq::raw_bytes(count, bits)) + 8);
          ecq::pack_raw_bits<Split>(bits, elements.data(), count, packed.data());
          for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) {
            unsigned expected = 0;
            if (bit / bits < count) {
              element value;
              std::memcpy(&value, elements.data() + bit / bits * sizeof value, sizeof value);
              expected = (std::uint32_t{Split::arrange(value)} >> (bit % bits)) & 1U;
            }
            ASSERT_EQ(static_cast<unsigned>(packed[bit / 8]) >> (bit % 8) & 1U, expected);
          }
          std::vector<std::uint8_t> symbols(count);
          ecq::extract_symbols<Split>(elements.data(), count, symbols.data());
          const unsigned dropped = bits - ecq::low_bits<Split>;
          for (auto& symbol : symbols) symbol = static_cast<std::uint8_t>(symbol >> dropped << dropped);
          for (const auto isa : ecq_test::machine_sets()) {
            bytes joined(elements.size());
            ecq::join_elements<Split>(bits, symbols.data(), packed.data(), count, joined.data(), isa);
            ASSERT_EQ(joined, elements) << ecq::to_string(format) << ", " << bits << ", " << name_of(isa);
            // Symbols may lie in the last bytes of the elements' own memory.
            std::uint8_t* const last = reinterpret_cast<std::uint8_t*>(joined.data()) + (sizeof(element) - 1) * count;
            std::copy(symbols.begin(), symbols.end(), last);
            ecq::join_elements<Split>(bits, last, packed.data(), count, joined.data(), isa);
            ASSERT_EQ(joined, elements) << ecq::to_string(format) << ", " << bits << ", " << name_of(isa);
          }
        }
      }
    });
  }
}

TEST(ExponentStream, BringsEveryPatternBack) {
  for (const dtype format : formats) {
    // All patterns of 8 and 16 bits, in disorder; of 32 bits all signs and exponents, NaN and -0 among them.
    const std::size_t width = ecq::size_of(format);
    const std::size_t patterns = width == 1 ? 256 : 65536;
    bytes elements(patterns * width);
    for (std::size_t i = 0; i < patterns; ++i) {
      const auto pattern = static_cast<std::uint32_t>(i * 40503 % patterns);
      const std::uint32_t word = width == 4 ? (pattern << 16) | (pattern % 3) : pattern;
      const auto half = static_cast<std::uint16_t>(word);
      const auto byte = static_cast<std::uint8_t>(word);
      std::memcpy(elements.data() + i * width,
                  width == 4   ? static_cast<const void*>(&word)
                  : width == 2 ? static_cast<const void*>(&half)
                               : static_cast<const void*>(&byte),
                  width);
    }
    const auto blob = ecq::encode_exponents(cpu{}, format, elements);
    ASSERT_TRUE(blob) << blob.error().to_string();
    EXPECT_EQ(decoded(*blob, 0, patterns), elements) << ecq::to_string(format);
    // Half of them NaN: coding saves so much that nothing is stored raw.
    for (std::size_t i = 0; i < patterns; i += 2)
      std::fill_n(elements.begin() + static_cast<std::ptrdiff_t>(i * width), width, std::byte{0xFF});
    const auto skewed = ecq::encode_exponents(cpu{}, format, elements);
    ASSERT_TRUE(skewed);
    if (width > 1) {
      EXPECT_EQ(ecq::encoded_stream::parse(*skewed)->coder(), ecq::coder_id::rans);
    }
    EXPECT_EQ(decoded(*skewed, 0, patterns), elements) << ecq::to_string(format);
  }
}

TEST(ExponentStream, BringsEverySizeAndRangeBack) {
  for (const dtype format : formats) {
    const std::size_t width = ecq::size_of(format);
    for (const std::size_t count : {0U, 1U, 31U, 1023U, 1024U, 1025U, 5000U}) {
      const bytes elements = gaussian(format, count);
      const auto blob = ecq::encode_exponents(cpu{}, format, elements, {.chunk_bits = 10});
      ASSERT_TRUE(blob) << blob.error().to_string();
      const auto stream = ecq::encoded_stream::parse(*blob);
      ASSERT_TRUE(stream) << stream.error().to_string();
      EXPECT_EQ(stream->format(), format);
      EXPECT_EQ(stream->size(), count);
      for (std::size_t first = 0; first <= count; first += 1 + count / 5) {
        for (const std::size_t length : {std::size_t{0}, (count - first) / 3, count - first}) {
          const auto begin = elements.begin() + static_cast<std::ptrdiff_t>(first * width);
          EXPECT_EQ(decoded(*blob, first, length, 2),
                    bytes(begin, begin + static_cast<std::ptrdiff_t>(length * width)));
        }
      }
    }
  }
}

// Committed streams, one for each format: this version writes them byte for byte, and every later version must read
// them. With ECQ_UPDATE_GOLDEN=1 in the environment, the test writes them anew, for a new format version.
TEST(ExponentStream, GoldenStreamsAreWrittenByteForByteAndReadByBothDecoders) {
  for (const dtype format : formats) {
    // Integers and shifts alone, so that every machine makes the same numbers: exponents that halve in frequency.
    const std::size_t width = ecq::size_of(format);
    bytes elements;
    for (std::uint32_t i = 0; i < 1500; ++i) {
      const std::uint32_t exponent = 12U - static_cast<std::uint32_t>(std::countr_zero(i + 1));
      const std::uint32_t word = (exponent << (8 * width - 6)) | ((i * 2654435761U) & ~(0x7FU << (8 * width - 8)));
      for (std::size_t byte = 0; byte < width; ++byte) {
        elements.push_back(static_cast<std::byte>((word >> (8 * byte)) & 0xFFU));
      }
    }
    const auto path = ecq_test::golden("stream/exponent_" + std::string(ecq::to_string(format)) + ".ecqs");
    const auto blob = ecq::encode_exponents(cpu{}, format, elements, {.chunk_bits = 10});
    ASSERT_TRUE(blob) << blob.error().to_string();
    if (std::getenv("ECQ_UPDATE_GOLDEN") != nullptr) {
      ecq_test::write_file(path, {reinterpret_cast<const char*>(blob->data()), blob->size()});
    }
    EXPECT_EQ(ecq_test::read_file(path), std::string(reinterpret_cast<const char*>(blob->data()), blob->size()));
    const auto read = ecq_test::format_decoder(*blob).decode();
    ASSERT_TRUE(read) << path;
    if constexpr (std::endian::native == std::endian::little) {
      EXPECT_TRUE(std::ranges::equal(*read, elements, {}, {}, [](std::byte byte) {
        return std::to_integer<std::uint8_t>(byte);
      })) << path;
      EXPECT_EQ(decoded(*blob, 0, 1500), elements) << path;
      EXPECT_EQ(ecq::encoded_stream::parse(*blob)->coder(), ecq::coder_id::rans) << path;
    }
  }
}

TEST(ExponentStream, BytesDoNotDependOnThreads) {
  const bytes elements = gaussian(dtype::bf16, 20'000);
  EXPECT_EQ(*ecq::encode_exponents(cpu{.threads = 1}, dtype::bf16, elements, {.chunk_bits = 10}),
            *ecq::encode_exponents(cpu{.threads = 3}, dtype::bf16, elements, {.chunk_bits = 10}));
}

TEST(ExponentStream, CostsRawBitsAndExponentEntropy) {
  // At sigma 0.02, exponents have 2.6 bits; the other 8, 11 and 24 bits are incompressible.
  const auto bits = [](dtype format) {
    constexpr std::size_t count = 200'000;
    return 8.0 * static_cast<double>(ecq::encode_exponents(cpu{}, format, gaussian(format, count))->size()) / count;
  };
  EXPECT_NEAR(bits(dtype::bf16), 8 + 2.6, 0.15);
  EXPECT_NEAR(bits(dtype::fp32), 24 + 2.6, 0.15);
  EXPECT_NEAR(bits(dtype::fp16), 11 + 2.6, 0.15);
}

TEST(ExponentStream, ElementsAreNotTakenForOthers) {
  const bytes elements = gaussian(dtype::bf16, 3000);
  const auto blob = ecq::encode_exponents(cpu{}, dtype::bf16, elements);
  const auto stream = ecq::encoded_stream::parse(*blob);
  ASSERT_TRUE(stream);
  std::vector<std::uint8_t> codes(3000);
  EXPECT_EQ(ecq::decode_stream(cpu{}, *stream, 0, codes).error().code(), errc::invalid_argument);
  bytes odd(3001);
  EXPECT_EQ(ecq::decode_elements(cpu{}, *stream, 0, odd).error().code(), errc::invalid_argument);
  bytes beyond(4);
  EXPECT_EQ(ecq::decode_elements(cpu{}, *stream, 2999, beyond).error().code(), errc::invalid_argument);
  EXPECT_EQ(ecq::encode_exponents(cpu{}, dtype::bf16, odd).error().code(), errc::invalid_argument);
  EXPECT_EQ(ecq::encode_exponents(cpu{}, dtype::int8, odd).error().code(), errc::invalid_argument);
}

/// Returns the stream with a corrected header checksum.
bytes sealed(bytes blob) {
  ecq::stream_header header;
  header.directory_bytes = ecq::load_le<std::uint16_t>(blob.data() + 14) * ecq::stream_header::entry_bytes;
  for (std::uint64_t at = 64; at < 64 + header.directory_bytes; at += ecq::stream_header::entry_bytes) {
    header.sections[ecq::load_le<std::uint32_t>(blob.data() + at)] = {
        ecq::load_le<std::uint64_t>(blob.data() + at + 8), ecq::load_le<std::uint64_t>(blob.data() + at + 16)};
  }
  ecq::store_le(blob.data() + ecq::stream_header::checksum_offset, header.checksum(blob));
  return blob;
}

TEST(ExponentStream, LiesInTheHeaderAreFound) {
  const auto made = ecq::encode_exponents(cpu{}, dtype::fp8_e4m3, gaussian(dtype::fp8_e4m3, 4000));
  ASSERT_TRUE(made);
  ASSERT_TRUE(ecq::encoded_stream::parse(sealed(*made)));
  const auto verdict = [&](std::size_t at, unsigned value) {
    bytes bad = *made;
    bad[at] = static_cast<std::byte>(value);
    const auto stream = ecq::encoded_stream::parse(sealed(bad));
    return stream ? errc::ok : stream.error().code();
  };
  EXPECT_EQ(verdict(8, 0), errc::corrupt);       // byte codes of a format
  EXPECT_EQ(verdict(8, 3), errc::unsupported);   // map
  EXPECT_EQ(verdict(44, 0), errc::unsupported);  // no format
  EXPECT_EQ(verdict(44, 6), errc::unsupported);  // int8 has no exponents
  EXPECT_EQ(verdict(44, 9), errc::unsupported);  // unknown
  for (unsigned format = 1; format <= 3; ++format) EXPECT_EQ(verdict(44, format), errc::corrupt) << format;
  for (const unsigned bits : {0U, 3U, 8U, 9U, 200U}) EXPECT_EQ(verdict(10, bits), errc::corrupt) << bits;
  EXPECT_EQ(verdict(45, 1), errc::unsupported);  // states of a trellis
  EXPECT_EQ(verdict(45, 19), errc::corrupt);     // a trellis of numbers
  EXPECT_EQ(verdict(47, 1), errc::corrupt);
  // A symbol beyond the exponents of 4 bits.
  const auto stream = ecq::encoded_stream::parse(*made);
  const auto tables = static_cast<std::size_t>(stream->header().at(ecq::section_kind::tables).offset);
  const unsigned count = ecq::load_le<std::uint16_t>(made->data() + tables + 2);
  EXPECT_EQ(verdict(tables + 4 + count - 1, 16), errc::corrupt);
}

TEST(ExponentStream, EveryFlippedBitIsFound) {
  const auto good = ecq::encode_exponents(cpu{}, dtype::bf16, gaussian(dtype::bf16, 700), {.chunk_bits = 10});
  ASSERT_TRUE(good);
  for (std::size_t bit = 0; bit < 8 * good->size(); ++bit) {
    bytes bad = *good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto stream = ecq::encoded_stream::parse(bad);
    if (!stream) continue;
    bytes out(1400);
    EXPECT_FALSE(ecq::decode_elements(cpu{}, *stream, 0, out)) << bit;
    // Without checksums, any result is allowed, but no access out of bounds.
    static_cast<void>(ecq::decode_elements(cpu{}, *stream, 0, out, {.verify_checksums = false}));
  }
}

}  // namespace
