#pragma once
/// \file
/// Damages safetensors files: their text as text, their data as bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "support/codes.hpp"
#include "support/files.hpp"

namespace ecq_test {

/// A safetensors file, divided into its text and its data; any other file is all data.
struct file_parts {
  std::string text, data;

  explicit file_parts(std::string_view file) {
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0 && file.size() >= 8;) length = length << 8 | static_cast<unsigned char>(file[i]);
    if (file.size() < 8 || length > file.size() - 8) length = 0;
    text = file.substr(length != 0 ? 8 : 0, static_cast<std::size_t>(length));
    data = file.substr(text.empty() ? 0 : 8 + text.size());
  }
  std::string file() const { return text.empty() ? data : safetensors_text(text, data); }
};

/// Mutator of files. It is deterministic: the same seed and file give the same changes.
class file_mutator {
 public:
  explicit file_mutator(std::uint64_t seed) : random_(seed) {}

  /// Makes one or two changes; checksums are left wrong.
  void mutate(std::string& file) {
    for (std::size_t changes = 1 + below(2); changes > 0; --changes) {
      file_parts parts(file);
      if (below(16) == 0) {
        change(file, true);
      } else {
        const bool text = below(2) == 0;
        change(text ? parts.text : parts.data, !text && below(8) == 0);
        file = parts.file();
      }
    }
  }

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>((random_.next() >> 11) % limit); }

  void change(std::string& part, bool may_grow) {
    if (part.empty()) return;
    const std::size_t at = below(part.size());
    switch (below(6)) {
      case 0: part[at] = static_cast<char>(part[at] ^ static_cast<char>(1U << below(8))); return;
      case 1: part[at] = static_cast<char>(below(256)); return;
      case 2: {  // another number
        const std::size_t digit = part.find_first_of("0123456789", at);
        if (digit != std::string::npos) part[digit] = static_cast<char>('0' + below(10));
        return;
      }
      case 3: std::swap(part[at], part[below(part.size())]); return;
      case 4: {  // a run is repeated, over other bytes or between them
        const std::string run = part.substr(at, 1 + below(24));
        const std::size_t to = below(part.size());
        part.replace(to, may_grow ? 0 : run.size(), run);
        return;
      }
      default:
        if (may_grow) {
          part.resize(at);
        } else {
          part.erase(at, 1);
        }
    }
  }

  code_source random_;
};

}  // namespace ecq_test
