#pragma once
/// \file
/// A strict reader of JSON in other people's files. It builds no document tree: even of a hostile text, a caller keeps
/// only what its schema has room for.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/utf8.hpp"

namespace ecq {

/// Appends `text` to `out` as a JSON string; precondition: is_utf8(text).
void append_json_string(std::string& out, std::string_view text);

/// Dialects of JSON that a json_reader accepts.
enum class json_dialect : bool {
  standard,  ///< RFC 8259
  python  ///< also what Python's json module writes: NaN, Infinity and -Infinity as numbers, and escapes of surrogates
          ///< that lack their other half, which read as U+FFFD
};

/// Reads one JSON text from front to back: each call takes the next value and fails if it is of another kind. Duplicate
/// keys in an object are errors, and so is text that is not UTF-8. Errors are errc::corrupt and name the position in
/// bytes.
class json_reader {
 public:
  /// skip() refuses deeper nesting; all other calls go as deep as their caller's schema.
  static constexpr int deepest_nesting = 32;

  /// `text` must outlive the reader.
  explicit json_reader(std::string_view text, json_dialect dialect = json_dialect::standard) noexcept
      : text_(text), dialect_(dialect) {}

  /// Calls `member(key)` for each member of the next object; it must read the value and return result<void>.
  template <class Member>
  result<void> object(Member&& member) {
    const std::size_t start = at_;
    ECQ_CHECK(expect('{', "an object"));
    std::vector<std::string> keys;
    if (!accept('}')) {
      do {
        ECQ_TRY(key, string());
        ECQ_CHECK(expect(':', "':'"));
        ECQ_CHECK(member(std::as_const(key)));
        keys.push_back(std::move(key));
      } while (accept(','));
      ECQ_CHECK(expect('}', "',' or '}'"));
    }
    return check_keys(start, std::move(keys));
  }

  /// Calls `element()` for each element of the next array; it must read the element and return result<void>.
  template <class Element>
  result<void> array(Element&& element) {
    ECQ_CHECK(expect('[', "an array"));
    if (accept(']')) return {};
    do {
      ECQ_CHECK(element());
    } while (accept(','));
    return expect(']', "',' or ']'");
  }

  result<std::string> string();

  /// Reads a number without sign, fraction and exponent that fits in 64 bits.
  result<std::uint64_t> integer();

  /// Reads a number and returns its text. The number may be outside the range of every type.
  result<std::string_view> number_text();

  /// Reads any value and discards it.
  result<void> skip(int depth = 0);

  /// Whether the next value begins with `character`: '{' for an object, '[' for an array, '"' for a string.
  bool next_is(char character) noexcept;

  /// Returns the number of bytes read so far.
  std::size_t position() const noexcept { return at_; }

  /// Fails if anything but white space is left.
  result<void> finish();

  /// Returns an error at the next byte.
  template <class... Parts>
  error fail(const Parts&... parts) const {
    return fail_at(at_, parts...);
  }

 private:
  static constexpr bool is_digit(char character) noexcept { return character >= '0' && character <= '9'; }

  template <class... Parts>
  error fail_at(std::size_t position, const Parts&... parts) const {
    return error(errc::corrupt, "JSON at byte ", position, ": ", parts...);
  }

  /// Fails if two keys of the object that begins at `start` are the same.
  result<void> check_keys(std::size_t start, std::vector<std::string> keys) const;

  void skip_space() noexcept;
  bool accept(char character) noexcept;
  result<void> expect(char character, std::string_view name);
  result<void> number();
  result<std::uint32_t> four_digits();
  result<std::uint32_t> code_point();
  result<void> escape(std::string& value);

  std::string_view text_;
  json_dialect dialect_;
  std::size_t at_ = 0;
};

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/io/json-inl.hpp"
#endif
