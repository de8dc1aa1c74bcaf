#pragma once
// A second decoder of streams, written from docs/format.md alone. It uses no header of the library and does not aim at
// speed. It returns nothing where a check of the document fails.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace ecq_test {

class format_decoder {
 public:
  explicit format_decoder(std::span<const std::byte> stream) {
    for (const std::byte byte : stream) bytes_.push_back(static_cast<std::uint8_t>(byte));
  }

  /// Returns what was compressed: bytes, or the bytes of numbers, the lowest first.
  std::optional<std::vector<std::uint8_t>> decode() {
    if (!read_header() || !read_directory() || !read_tables() || !check_padding()) return std::nullopt;
    std::vector<std::uint8_t> codes;
    for (std::uint64_t chunk = 0; chunk < chunks_; ++chunk) {
      if (!decode_chunk(chunk, codes)) return std::nullopt;
    }
    if (trellis_ != 0) walk_trellis(codes);
    return codes;
  }

 private:
  struct place {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  struct slot_of {
    std::uint32_t symbol_number;
    std::uint32_t rank;
  };
  struct table {
    unsigned slot_bits = 0;
    std::vector<std::uint32_t> symbols;
    std::vector<std::uint32_t> frequencies;
    std::vector<slot_of> slots;
    std::vector<std::uint32_t> lengths;  // Huffman
    std::vector<std::uint64_t> words;    // first bit highest
  };

  std::uint64_t number(std::uint64_t at, unsigned size) const {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i) value |= std::uint64_t{bytes_.at(at + i)} << (8 * i);
    return value;
  }

  static std::uint64_t rotate(std::uint64_t value, unsigned bits) { return (value << bits) | (value >> (64 - bits)); }

  std::uint64_t xxh64(std::uint64_t at, std::uint64_t size, std::uint64_t seed) const {
    constexpr std::uint64_t p1 = 11400714785074694791U;
    constexpr std::uint64_t p2 = 14029467366897019727U;
    constexpr std::uint64_t p3 = 1609587929392839161U;
    constexpr std::uint64_t p4 = 9650029242287828579U;
    constexpr std::uint64_t p5 = 2870177450012600261U;
    const auto mix = [](std::uint64_t sum, std::uint64_t lane) { return rotate(sum + lane * p2, 31) * p1; };
    const std::uint64_t end = at + size;
    std::uint64_t hash = seed + p5;
    if (size >= 32) {
      std::uint64_t sums[4] = {seed + p1 + p2, seed + p2, seed, seed - p1};
      while (end - at >= 32) {
        for (std::uint64_t& sum : sums) {
          sum = mix(sum, number(at, 8));
          at += 8;
        }
      }
      hash = rotate(sums[0], 1) + rotate(sums[1], 7) + rotate(sums[2], 12) + rotate(sums[3], 18);
      for (const std::uint64_t sum : sums) hash = (hash ^ mix(0, sum)) * p1 + p4;
    }
    hash += size;
    for (; end - at >= 8; at += 8) hash = rotate(hash ^ mix(0, number(at, 8)), 27) * p1 + p4;
    for (; end - at >= 4; at += 4) hash = rotate(hash ^ (number(at, 4) * p1), 23) * p2 + p3;
    for (; at < end; ++at) hash = rotate(hash ^ (bytes_.at(at) * p5), 11) * p1;
    hash = (hash ^ (hash >> 33)) * p2;
    hash = (hash ^ (hash >> 29)) * p3;
    return hash ^ (hash >> 32);
  }

  bool read_header() {
    if (bytes_.size() < 192 || number(0, 4) != 0x53514345 || number(4, 2) != 1) return false;
    coder_ = number(6, 2);
    raw_bits_ = static_cast<unsigned>(number(10, 1));
    chunk_bits_ = static_cast<unsigned>(number(12, 1));
    sections_listed_ = number(14, 2);
    codes_ = number(16, 8);
    chunks_ = number(24, 8);
    tables_listed_ = number(40, 4);
    const std::uint64_t format = number(44, 1);
    const std::uint64_t map = number(8, 2);
    if (map > 2 || format > 5 || (map == 0 && format != 0) || (map == 1 && format == 0)) return false;
    constexpr unsigned widths[] = {8, 32, 16, 16, 8, 8};
    constexpr unsigned exponents[] = {8, 8, 5, 8, 4, 5};
    rotated_ = format != 0;
    width_ = widths[format];
    if (raw_bits_ > width_ || raw_bits_ + exponents[format] < width_) return false;
    pairs_ = map == 2;
    symbol_bits_ = exponents[format];
    alphabet_ = pairs_ ? 256 : std::uint64_t{1} << (width_ - raw_bits_);
    if (pairs_ && format != 0 && raw_bits_ + symbol_bits_ != width_) return false;
    if (coder_ > 4 || (raw_bits_ == width_) != (coder_ == 0)) return false;
    if (number(11, 1) != 32 || chunk_bits_ < 10 || chunk_bits_ > 18 || number(13, 1) != 0) return false;
    const std::uint64_t whole = std::uint64_t{1} << chunk_bits_;
    if (codes_ > std::uint64_t{1} << 43 || chunks_ != (codes_ + whole - 1) / whole) return false;
    if (number(32, 8) != bytes_.size() || bytes_.size() % 64 != 0 || tables_listed_ > chunks_) return false;
    const std::uint64_t kind = number(45, 1);
    period_ = number(46, 1);
    if (kind == 0 ? period_ != 0 : kind < 18 || kind > 21 || period_ < 10 || period_ > chunk_bits_) return false;
    trellis_ = kind % 16;
    if (trellis_ != 0 && format != 0) return false;
    return tables_listed_ <= 65536 && number(47, 8) == 0 && number(55, 1) == 0;
  }

  bool read_directory() {
    std::uint64_t end = 64 + 24 * sections_listed_;
    if (sections_listed_ > 64 || end + 128 > bytes_.size()) return false;
    used_ = {{0, end}};
    for (std::uint64_t entry = 64; entry < 64 + 24 * sections_listed_; entry += 24) {
      const std::uint64_t kind = number(entry, 4);
      const std::uint64_t flags = number(entry + 4, 4);
      const place where = {number(entry + 8, 8), number(entry + 16, 8)};
      if (flags > 1 || where.offset % 64 != 0 || where.offset < end || where.size == 0) return false;
      if (where.offset > bytes_.size() || where.size > bytes_.size() - where.offset) return false;
      end = where.offset + where.size;
      if (end + 128 > bytes_.size()) return false;
      used_.push_back(where);
      if ((kind < 1 || kind > 5) && kind != 8 && kind != 9) {
        if (flags == 1) return false;
        continue;
      }
      if (!sections_.emplace(kind, where).second) return false;
    }
    std::uint64_t digest = xxh64(0, 56, 0);
    digest = xxh64(64, 24 * sections_listed_, digest);
    digest = xxh64(sections_[1].offset, sections_[1].size, digest);
    digest = xxh64(sections_[2].offset, sections_[2].size, digest);
    if (sections_[8].size != 0) digest = xxh64(sections_[8].offset, sections_[8].size, digest);
    return digest == number(56, 8) && sections_[2].size == 16 * (chunks_ + 1) &&
           sections_[3].size == state_bytes() * chunks_ && sections_[4].size == (codes_ * raw_bits_ + 7) / 8 &&
           sections_[5].size == 2 * index(chunks_, 0, 8) && read_nibbles();
  }

  bool read_nibbles() {
    const place nibbles = sections_[8];
    const std::uint64_t escapes = sections_[9].size;
    if (!pairs_ || symbol_bits_ == 4) {
      for (std::uint64_t symbol = 0; symbol < 16; ++symbol) list_.push_back(symbol);
      return nibbles.size == 0 && escapes == 0;
    }
    if (nibbles.size < 16) return false;
    for (unsigned i = 0; i < 16; ++i) list_.push_back(number(nibbles.offset + i, 1));
    if (list_[15] == 0) list_.pop_back();
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if ((i > 0 && list_[i] <= list_[i - 1]) || list_[i] >= std::uint64_t{1} << symbol_bits_) return false;
    }
    if (list_.size() == 16) return nibbles.size == 16 && escapes == 0;
    if (nibbles.size != 16 + 8 * (chunks_ + 1) || first_escape(0) != 0) return false;
    for (std::uint64_t chunk = 0; chunk < chunks_; ++chunk) {
      if (first_escape(chunk + 1) < first_escape(chunk)) return false;
    }
    return first_escape(chunks_) == escapes;
  }

  std::uint64_t first_escape(std::uint64_t chunk) const { return number(sections_.at(8).offset + 16 + 8 * chunk, 8); }

  std::uint64_t state_bytes() const { return coder_ == 1 || coder_ == 3 ? 128 : coder_ == 2 ? 192 : 0; }

  bool check_padding() {
    used_.push_back({bytes_.size(), 0});
    for (std::size_t i = 0; i + 1 < used_.size(); ++i) {
      for (std::uint64_t at = used_[i].offset + used_[i].size; at < used_[i + 1].offset; ++at) {
        if (bytes_[at] != 0) return false;
      }
    }
    for (std::uint64_t bit = codes_ * raw_bits_; bit < 8 * sections_[4].size; ++bit) {
      if (raw_bit(bit) != 0) return false;
    }
    return index(0, 0, 8) == 0 && index(chunks_, 8, 8) == 0;
  }

  std::uint64_t index(std::uint64_t record, unsigned field, unsigned size) const {
    return number(sections_.at(2).offset + 16 * record + field, size);
  }

  unsigned raw_bit(std::uint64_t bit) const { return number(sections_.at(4).offset + bit / 8, 1) >> (bit % 8) & 1; }

  bool read_tables() {
    std::uint64_t at = sections_[1].offset;
    const std::uint64_t end = at + sections_[1].size;
    for (std::uint64_t i = 0; i < tables_listed_ && coder_ != 0; ++i) {
      if (end - at < 4) return false;
      if (coder_ >= 3) {
        if (!read_code(at, end)) return false;
        continue;
      }
      table read;
      const std::uint64_t mapping = number(at, 1);
      const auto parameter = static_cast<unsigned>(number(at + 1, 1));
      const std::uint64_t count = number(at + 2, 2);
      const std::uint64_t symbols = at + 4;
      const std::uint64_t frequencies = symbols + count + count % 2;
      if ((coder_ == 1 ? mapping > 1 : mapping != 3) || count < 1 || count > 256 ||
          end - at < 4 + count + count % 2 + 2 * count)
        return false;
      if (mapping == 0 && (parameter < 5 || parameter > 6 || count > 1U << parameter)) return false;
      if (mapping == 1 && (parameter < 8 || parameter > 14)) return false;
      if (mapping == 3 && (parameter < 9 || parameter > 12)) return false;
      if (count % 2 == 1 && number(symbols + count, 1) != 0) return false;
      read.slot_bits = mapping == 0 ? 16 : parameter;
      std::uint64_t sum = 0;
      for (std::uint64_t s = 0; s < count; ++s) {
        read.symbols.push_back(static_cast<std::uint32_t>(number(symbols + s, 1)));
        read.frequencies.push_back(static_cast<std::uint32_t>(number(frequencies + 2 * s, 2) + 1));
        sum += read.frequencies.back();
        if (s > 0 && read.symbols[s] <= read.symbols[s - 1]) return false;
        if (read.symbols[s] >= alphabet_) return false;
      }
      if (sum != std::uint64_t{1} << read.slot_bits) return false;
      if (mapping == 0) {
        fill_alias(read, parameter);
      } else if (mapping == 3) {
        fill_spread(read);
      } else {
        for (std::uint32_t s = 0; s < count; ++s) {
          for (std::uint32_t rank = 0; rank < read.frequencies[s]; ++rank) read.slots.push_back({s, rank});
        }
      }
      tables_.push_back(read);
      at = frequencies + 2 * count;
    }
    return at == end;
  }

  // Sets for each tANS state the number of its symbol and, as rank, the x of the document.
  static void fill_spread(table& of) {
    const std::uint32_t states = 1U << of.slot_bits;
    of.slots.resize(states);
    std::uint32_t at = 0;
    for (std::uint32_t s = 0; s < of.symbols.size(); ++s) {
      for (std::uint32_t i = 0; i < of.frequencies[s]; ++i) {
        of.slots[at].symbol_number = s;
        at = (at + states / 2 + states / 8 + 3) % states;
      }
    }
    std::vector<std::uint32_t> x = of.frequencies;
    for (slot_of& slot : of.slots) slot.rank = x[slot.symbol_number]++;
  }

  bool read_code(std::uint64_t& at, std::uint64_t end) {
    const std::uint64_t count = number(at + 2, 2);
    if (number(at, 1) != 2 || count < 1 || count > 256 || end - at < 4 + 2 * count) return false;
    const unsigned limit = coder_ == 3 ? 16 : 32;
    table read;
    std::uint64_t space = 0;
    std::uint64_t longest = 0;
    for (std::uint64_t s = 0; s < count; ++s) {
      read.symbols.push_back(static_cast<std::uint32_t>(number(at + 4 + s, 1)));
      read.lengths.push_back(static_cast<std::uint32_t>(number(at + 4 + count + s, 1)));
      if (s > 0 && read.symbols[s] <= read.symbols[s - 1]) return false;
      if (read.symbols[s] >= alphabet_ || read.lengths[s] > limit || (read.lengths[s] == 0) != (count == 1)) {
        return false;
      }
      space += (std::uint64_t{1} << limit) >> read.lengths[s];
      longest = read.lengths[s] > longest ? read.lengths[s] : longest;
    }
    if (space != std::uint64_t{1} << limit || longest != number(at + 1, 1)) return false;
    read.words.resize(count);
    std::uint64_t word = 0;
    for (unsigned length = 1; length <= limit; ++length, word *= 2) {
      for (std::uint64_t s = 0; s < count; ++s) {
        if (read.lengths[s] == length) read.words[s] = word++;
      }
    }
    tables_.push_back(read);
    at += 4 + 2 * count;
    return true;
  }

  static void fill_alias(table& of, unsigned b) {
    const std::uint32_t buckets = 1U << b;
    const std::uint32_t width = 65536U / buckets;
    std::vector<std::uint32_t> left(buckets, 0);
    std::vector<std::uint32_t> divider(buckets, width);
    std::vector<std::uint32_t> alias(buckets, 0);
    std::vector<std::uint32_t> adjust(buckets, 0);
    std::vector<std::uint32_t> under;
    std::vector<std::uint32_t> over;
    for (std::uint32_t i = 0; i < buckets; ++i) {
      if (i < of.frequencies.size()) left[i] = of.frequencies[i];
      (left[i] < width ? under : over).push_back(i);
    }
    while (!under.empty() && !over.empty()) {
      const std::uint32_t p = under.back();
      under.pop_back();
      const std::uint32_t r = over.back();
      divider[p] = left[p];
      alias[p] = r;
      left[r] -= width - left[p];
      if (left[r] < width) {
        over.pop_back();
        under.push_back(r);
      }
    }
    std::vector<std::uint32_t> used = divider;
    for (std::uint32_t i = 0; i < buckets; ++i) {
      if (divider[i] == width) continue;
      adjust[i] = (used[alias[i]] - divider[i]) % 65536U;
      used[alias[i]] += width - divider[i];
    }
    for (std::uint32_t slot = 0; slot < 65536; ++slot) {
      const std::uint32_t bucket = slot % buckets;
      const std::uint32_t t = slot >> b;
      of.slots.push_back(t < divider[bucket] ? slot_of{bucket, t}
                                             : slot_of{alias[bucket], (t + adjust[bucket]) % 65536U});
    }
  }

  bool decode_chunk(std::uint64_t chunk, std::vector<std::uint8_t>& codes) {
    const std::uint64_t first = chunk << chunk_bits_;
    const std::uint64_t count =
        codes_ - first < std::uint64_t{1} << chunk_bits_ ? codes_ - first : std::uint64_t{1} << chunk_bits_;
    const std::uint64_t states = sections_[3].offset + state_bytes() * chunk;
    const std::uint64_t first_word = index(chunk, 0, 8);
    const std::uint64_t last_word = index(chunk + 1, 0, 8);
    const std::uint64_t coded_count = pairs_ ? (count + 1) / 2 : count;
    if (last_word < first_word || last_word - first_word > coded_count || 2 * last_word > sections_[5].size)
      return false;
    if (index(chunk, 12, 2) >= tables_listed_ || index(chunk, 14, 2) != 0) return false;
    std::uint64_t digest = xxh64(states, state_bytes(), chunk);
    digest = xxh64(sections_[5].offset + 2 * first_word, 2 * (last_word - first_word), digest);
    digest = xxh64(sections_[4].offset + first * raw_bits_ / 8, (count * raw_bits_ + 7) / 8, digest);
    const bool escaping = pairs_ && list_.size() == 15;
    std::uint64_t escape = escaping ? first_escape(chunk) : 0;
    const std::uint64_t last_escape = escaping ? first_escape(chunk + 1) : 0;
    if (last_escape - escape > count) return false;
    if (last_escape != escape) digest = xxh64(sections_[9].offset + escape, last_escape - escape, digest);
    if (digest % (std::uint64_t{1} << 32) != index(chunk, 8, 4)) return false;

    std::vector<std::uint32_t> coded(coded_count, 0);
    if (coder_ == 4 && !decode_gap_array(tables_[index(chunk, 12, 2)], first_word, last_word, coded)) return false;
    if (coder_ != 0 && coder_ != 4 &&
        !decode_symbols(tables_[index(chunk, 12, 2)], states, first_word, last_word, coded))
      return false;
    if (pairs_ && count % 2 == 1 && coded.back() > 15) return false;
    for (std::uint64_t j = 0; j < count; ++j) {
      std::uint64_t symbol = pairs_ ? coded[j / 2] >> (4 * (j % 2)) & 15 : coded[j];
      if (pairs_ && symbol < list_.size()) {
        symbol = list_[symbol];
      } else if (pairs_) {
        if (escape == last_escape) return false;
        symbol = number(sections_[9].offset + escape++, 1);
        if (symbol >= std::uint64_t{1} << symbol_bits_) return false;
      }
      std::uint64_t raw = 0;
      for (unsigned bit = 0; bit < raw_bits_; ++bit) {
        raw |= std::uint64_t{raw_bit((first + j) * raw_bits_ + bit)} << bit;
      }
      const std::uint64_t code = pairs_ && !rotated_ ? (symbol + raw) % 256 : (symbol << raw_bits_) + raw;
      const std::uint64_t element = rotated_ ? code / 2 + (code % 2 << (width_ - 1)) : code;
      for (unsigned shift = 0; shift < width_; shift += 8) codes.push_back(static_cast<std::uint8_t>(element >> shift));
    }
    return escape == last_escape;
  }

  // Indices become codes on the trellis.
  void walk_trellis(std::vector<std::uint8_t>& indices) const {
    constexpr std::uint64_t a[] = {0, 0, 2, 5, 9, 18};
    constexpr std::uint64_t b[] = {0, 0, 1, 2, 2, 4};
    std::vector<std::uint64_t> states(32, 0);
    for (std::uint64_t position = 0; position < indices.size(); ++position) {
      if (position % (std::uint64_t{1} << period_) == 0) states.assign(32, 0);
      std::uint64_t& s = states[position % (std::uint64_t{1} << chunk_bits_) % 128 / 4];
      const int k = indices[position] < 128 ? indices[position] : indices[position] - 256;
      indices[position] = static_cast<std::uint8_t>(2 * k + static_cast<int>(s % 2));
      s = (s >> 1) ^ (s % 2 == 1 ? a[trellis_] : 0) ^ (k % 2 != 0 ? b[trellis_] : 0);
    }
  }

  bool decode_symbols(const table& with, std::uint64_t states, std::uint64_t word, std::uint64_t last_word,
                      std::vector<std::uint32_t>& coded) const {
    std::uint64_t state[32];
    std::uint64_t tans_state[32] = {};  // tANS: the state, where `state` is the stack
    for (unsigned lane = 0; lane < 32; ++lane) {
      state[lane] = number(states + 4 * lane, 4);
      if (coder_ == 2) tans_state[lane] = number(states + 128 + 2 * lane, 2);
      if (tans_state[lane] >= (with.symbols.size() == 1 ? 1 : std::uint64_t{1} << with.slot_bits)) return false;
      if (state[lane] < 65536) return false;
    }
    if (with.symbols.size() == 1) {
      coded.assign(coded.size(), with.symbols[0]);
    } else {
      for (std::uint64_t group = 0; 128 * group < coded.size(); ++group) {
        for (unsigned round = 0; round < 4; ++round) {
          for (unsigned lane = 0; lane < 32; ++lane) {
            const std::uint64_t j = 128 * group + 4 * lane + round;
            if (j >= coded.size()) continue;
            if (coder_ == 3) {
              const std::uint64_t symbol = pop_code_word(with, state[lane]);
              coded[j] = with.symbols[symbol];
              state[lane] >>= with.lengths[symbol];
              if (!refill(state[lane], word, last_word)) return false;
              continue;
            }
            if (coder_ == 2) {
              const slot_of& slot = with.slots[tans_state[lane]];
              coded[j] = with.symbols[slot.symbol_number];
              unsigned bits = 0;
              while (slot.rank << bits < 1U << with.slot_bits) ++bits;
              const std::uint64_t low = state[lane] % (std::uint64_t{1} << bits);
              tans_state[lane] = (std::uint64_t{slot.rank} << bits) - (std::uint64_t{1} << with.slot_bits) + low;
              state[lane] >>= bits;
              if (!refill(state[lane], word, last_word)) return false;
              continue;
            }
            const slot_of& slot = with.slots[state[lane] % (std::uint64_t{1} << with.slot_bits)];
            coded[j] = with.symbols[slot.symbol_number];
            state[lane] = with.frequencies[slot.symbol_number] * (state[lane] >> with.slot_bits) + slot.rank;
            if (!refill(state[lane], word, last_word)) return false;
          }
        }
      }
    }
    for (const std::uint64_t x : state) {
      if (x != 65536) return false;
    }
    for (const std::uint64_t last : tans_state) {
      if (last != 0) return false;
    }
    return word == last_word;
  }

  // Decodes one code word after another; gaps and positions are only checked.
  bool decode_gap_array(const table& with, std::uint64_t word, std::uint64_t last_word,
                        std::vector<std::uint32_t>& coded) const {
    const std::uint64_t from = sections_.at(5).offset + 2 * word;
    const std::uint64_t words = last_word - word;
    if (words == (coded.size() + 1) / 2) {
      for (std::uint64_t j = 0; j < coded.size(); ++j) {
        coded[j] = static_cast<std::uint32_t>(number(from + j, 1));
        if (coded[j] >= alphabet_) return false;
      }
      return coded.size() % 2 == 0 || number(from + coded.size(), 1) == 0;
    }
    if (words < 2 || words > (coded.size() + 1) / 2) return false;
    std::uint64_t longest = 0;
    for (const std::uint32_t length : with.lengths) longest = length > longest ? length : longest;
    const std::uint64_t g = longest <= 16 ? 4 : 5;
    const std::uint64_t windows = number(from, 4);
    const std::uint64_t stretches = (windows + 255) / 256;
    const std::uint64_t gaps = from + 4 + 4 * stretches;
    const std::uint64_t bits = gaps + (windows * g + 15) / 16 * 2;
    if (2 + 2 * stretches + (windows * g + 15) / 16 + 4 * windows != words) return false;
    if ((windows == 0) != (with.symbols.size() == 1)) return false;
    if (windows == 0) {
      coded.assign(coded.size(), with.symbols[0]);
      return true;
    }
    const auto bit_at = [&](std::uint64_t base, std::uint64_t bit) {
      return number(base + bit / 8, 1) >> (bit % 8) & 1;
    };
    std::uint64_t bit = 0;
    std::uint64_t next = 0;
    for (std::uint64_t j = 0; j <= coded.size(); ++j) {
      for (; next < windows && bit >= 64 * next; ++next) {
        std::uint64_t gap = 0;
        for (std::uint64_t i = 0; i < g; ++i) gap |= bit_at(gaps, next * g + i) << i;
        if (gap != bit - 64 * next) return false;
        if (next % 256 == 0 && number(from + 4 + next / 64, 4) != j) return false;
      }
      if (j == coded.size()) break;
      std::uint64_t stack = 0;
      for (std::uint64_t i = 0; i < longest && bit + i < 64 * windows; ++i) stack |= bit_at(bits, bit + i) << i;
      const std::uint64_t symbol = pop_code_word(with, stack);
      coded[j] = with.symbols[symbol];
      bit += with.lengths[symbol];
      if (bit > 64 * windows) return false;
    }
    if (bit <= 64 * (windows - 1)) return false;
    for (; bit < 64 * windows; ++bit) {
      if (bit_at(bits, bit) != 0) return false;
    }
    for (std::uint64_t i = windows * g; i < 8 * (bits - gaps); ++i) {
      if (bit_at(gaps, i) != 0) return false;
    }
    return true;
  }

  bool refill(std::uint64_t& state, std::uint64_t& word, std::uint64_t last_word) const {
    if (state >= 65536) return true;
    if (word == last_word) return false;
    state = (state << 16) + number(sections_.at(5).offset + 2 * word++, 2);
    return true;
  }

  // Some code word is always found, since the code is complete.
  static std::uint64_t pop_code_word(const table& with, std::uint64_t stack) {
    std::uint64_t word = 0;
    for (unsigned length = 1;; ++length, stack >>= 1) {
      word = 2 * word + (stack & 1);
      for (std::uint64_t s = 0; s < with.symbols.size(); ++s) {
        if (with.lengths[s] == length && with.words[s] == word) return s;
      }
    }
  }

  std::vector<std::uint8_t> bytes_;
  std::uint64_t coder_ = 0;
  unsigned width_ = 8;
  bool rotated_ = false;
  bool pairs_ = false;
  unsigned symbol_bits_ = 8;
  std::uint64_t alphabet_ = 256;
  std::vector<std::uint64_t> list_;  // symbols of the nibbles: 15 of them if nibble 15 is the escape
  unsigned raw_bits_ = 0;
  unsigned chunk_bits_ = 0;
  std::uint64_t trellis_ = 0;
  std::uint64_t period_ = 0;
  std::uint64_t sections_listed_ = 0;
  std::uint64_t codes_ = 0;
  std::uint64_t chunks_ = 0;
  std::uint64_t tables_listed_ = 0;
  std::map<std::uint64_t, place> sections_;
  std::vector<place> used_;
  std::vector<table> tables_;
};

}  // namespace ecq_test
