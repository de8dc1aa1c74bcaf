#pragma once
/// \file
/// `result<T>`: a value or an error that names what is wrong and where.

#include <optional>
#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/error.hpp"

namespace ecq {

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
