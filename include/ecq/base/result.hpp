#pragma once
/// \file
/// `result<T>`: a value or an error that names what is wrong and where. Nothing in the library throws on bad input.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ecq/base/config.hpp"

namespace ecq {

/// Kinds of failure. Device code returns only these; the host adds the text.
enum class errc : std::uint8_t {
  ok = 0,
  invalid_argument,    ///< the caller's shapes, options or buffers do not fit together
  unsupported,         ///< well formed, but this version or build has no such format, coder or feature
  limit_exceeded,      ///< larger than a documented limit (stream/limits.hpp)
  out_of_memory,       ///< an allocation of a checked size failed
  truncated,           ///< the bytes end before what they announce
  corrupt,             ///< the bytes contradict themselves
  checksum_mismatch,   ///< the bytes are not the ones that were written
  non_finite,          ///< NaN or infinity among the weights
  unreachable_target,  ///< no parameter reaches the bits per weight asked for
  not_found,           ///< no such file, tensor, matrix or key
  io_error,            ///< the operating system refused to read or write
  device_error         ///< a GPU refused or failed
};

/// Short English name of a kind of failure, for example "truncated".
constexpr std::string_view to_string(errc code) noexcept {
  switch (code) {
    case errc::ok: return "ok";
    case errc::invalid_argument: return "invalid argument";
    case errc::unsupported: return "unsupported";
    case errc::limit_exceeded: return "limit exceeded";
    case errc::out_of_memory: return "out of memory";
    case errc::truncated: return "truncated";
    case errc::corrupt: return "corrupt";
    case errc::checksum_mismatch: return "checksum mismatch";
    case errc::non_finite: return "non-finite weight";
    case errc::unreachable_target: return "unreachable target";
    case errc::not_found: return "not found";
    case errc::io_error: return "input/output error";
    case errc::device_error: return "device error";
  }
  return "unknown error";
}

/// A failure: what went wrong (`code`) and where (`message`, English, without a trailing full stop or newline).
class ECQ_NODISCARD error {
 public:
  error(errc code, std::string message) : code_(code), message_(std::move(message)) {}

  errc code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

  /// The same error with `context + ": "` before its message; callers add the file, tensor or block they know.
  error within(std::string_view context) && {
    message_.insert(0, std::string(context) + ": ");
    return std::move(*this);
  }

  /// "corrupt: <message>".
  std::string to_string() const { return std::string(ecq::to_string(code_)) + ": " + message_; }

 private:
  errc code_;
  std::string message_;
};

/// A `Value` or an `error`: a subset of std::expected (C++23). As there, dereferencing a failed result is undefined.
template <class Value>
class ECQ_NODISCARD result {
 public:
  using value_type = Value;

  result(Value value) : value_(std::move(value)) {}
  result(ecq::error failure) : error_(std::move(failure)) {}

  bool has_value() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }

  Value& operator*() & noexcept { return *value_; }
  const Value& operator*() const& noexcept { return *value_; }
  Value&& operator*() && noexcept { return std::move(*value_); }
  Value* operator->() noexcept { return &*value_; }
  const Value* operator->() const noexcept { return &*value_; }

  ecq::error& error() & noexcept { return *error_; }
  const ecq::error& error() const& noexcept { return *error_; }
  ecq::error&& error() && noexcept { return std::move(*error_); }

 private:
  // Not a std::variant, of which each type takes compilers longer than anything else here.
  std::optional<Value> value_;
  std::optional<ecq::error> error_;
};

/// Success, or an error.
template <>
class ECQ_NODISCARD result<void> {
 public:
  using value_type = void;

  result() = default;
  result(ecq::error failure) : error_(std::move(failure)) {}

  bool has_value() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return has_value(); }

  ecq::error& error() & noexcept { return *error_; }
  const ecq::error& error() const& noexcept { return *error_; }
  ecq::error&& error() && noexcept { return std::move(*error_); }

 private:
  std::optional<ecq::error> error_;
};

}  // namespace ecq
