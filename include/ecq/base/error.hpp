#pragma once
/// \file
/// `error`: what went wrong, and where. Nothing in the library throws on bad input.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/text.hpp"

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

/// Returns the short English name of a kind of failure, for example "truncated".
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

/// A failure: what went wrong (`code`) and where (`message`, English, one line without a trailing full stop). Names
/// from files cannot break the line or disguise themselves, because printable() escapes the characters that could.
class ECQ_NODISCARD error {
 public:
  /// Composes the message from `parts`, texts and numbers: `error(errc::corrupt, count, " symbols, not 1..256")`.
  template <class... Parts>
    requires(sizeof...(Parts) > 0)
  error(errc code, const Parts&... parts) : code_(code), message_(detail::line_of(parts...)) {}

  errc code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

  /// Returns this error with a context and ": " before its message; callers add the file, tensor or block they know.
  /// The context is composed from `parts`, like a message.
  template <class... Parts>
  error within(const Parts&... parts) && {
    message_ = detail::line_of(parts..., ": ", message_);
    return std::move(*this);
  }

  /// Returns the code's name and the message: "corrupt: <message>".
  std::string to_string() const { return detail::text_of(ecq::to_string(code_), ": ", message_); }

 private:
  errc code_;
  std::string message_;
};

}  // namespace ecq
