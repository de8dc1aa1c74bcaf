#pragma once
/// \file
/// Common base of the host's stepped groups: all threads take a step, one after another.

#include <array>
#include <cstdint>

#include "ecq/base/host_group.hpp"
#include "ecq/base/threads.hpp"

namespace ecq {

template <unsigned Threads>
struct host_steps {
  using memory = host_memory;

  template <class Value>
  using own = std::array<Value, Threads>;

  static constexpr std::uint32_t size() { return Threads; }
  template <class Value>
  static Value& at(own<Value>& values, std::uint32_t thread) {
    return values[thread];
  }
  template <class Body>
  static void each_thread(Body&& body) {
    for (std::uint32_t thread = 0; thread < Threads; ++thread) body(thread);
  }
  static void sync() {}
};
static_assert(stepped_group<host_steps<1>>);

}  // namespace ecq
