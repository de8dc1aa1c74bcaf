#pragma once
/// \file
/// `result<T>`: a value or an error that names what is wrong and where.

#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/error.hpp"

namespace ecq {

/// A `Value` or an `error`: a subset of std::expected (C++23). As there, dereferencing a failed result is undefined.
/// Moving a `Value` must not throw.
template <class Value>
class ECQ_NODISCARD result {
 public:
  using value_type = Value;

  result(Value value) : value_(std::move(value)) {}
  result(ecq::error failure) : error_(std::move(failure)) {}

  result(result&& other) noexcept : error_(std::move(other.error_)) {
    if (!error_) ::new (static_cast<void*>(&value_)) Value(std::move(other.value_));
  }
  result(const result& other)
    requires std::is_copy_constructible_v<Value>
      : error_(other.error_) {
    if (!error_) ::new (static_cast<void*>(&value_)) Value(other.value_);
  }
  result& operator=(result other) noexcept {
    this->~result();
    ::new (this) result(std::move(other));
    return *this;
  }
  ~result() {
    if (!error_) value_.~Value();
  }

  bool has_value() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return has_value(); }

  Value& operator*() & noexcept { return value_; }
  const Value& operator*() const& noexcept { return value_; }
  Value&& operator*() && noexcept { return std::move(value_); }
  Value* operator->() noexcept { return &value_; }
  const Value* operator->() const noexcept { return &value_; }

  /// Returns the value, or `other` if there is an error.
  template <class Other>
  Value value_or(Other&& other) const& {
    return has_value() ? value_ : static_cast<Value>(std::forward<Other>(other));
  }
  template <class Other>
  Value value_or(Other&& other) && {
    return has_value() ? std::move(value_) : static_cast<Value>(std::forward<Other>(other));
  }

  ecq::error& error() & noexcept { return *error_; }
  const ecq::error& error() const& noexcept { return *error_; }
  ecq::error&& error() && noexcept { return std::move(*error_); }

 private:
  // Neither a std::variant nor a std::optional, each instantiation of which takes longer to compile than anything else
  // here.
  union {
    Value value_;
  };
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
