#pragma once
// The device functions that the library's kernels call, and no others.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/emulated/block.hpp"

#define ECQ_EMULATED_VECTOR(name, type)                            \
  struct alignas(2 * sizeof(type)) name##2 { type x, y; };         \
  struct alignas(16) name##4 { type x, y, z, w; };                 \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
ECQ_EMULATED_VECTOR(uint, unsigned)
ECQ_EMULATED_VECTOR(int, int)
ECQ_EMULATED_VECTOR(float, float)
#undef ECQ_EMULATED_VECTOR

namespace ecq_emulated {

template <class Value>
std::uint64_t bits_of(Value value) {
  static_assert(std::is_arithmetic_v<Value> && sizeof(Value) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class Value>
Value value_of(std::uint64_t bits) {
  Value value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint32_t ballot(const char* what, std::uint32_t mask, bool set, unsigned line) {
  const auto result = [](const arrivals& lanes, std::uint32_t members, unsigned) {
    std::uint64_t found = 0;
    for (unsigned i = 0; i < 32; ++i) found |= (members >> i & 1U) != 0 ? lanes[i].value << i : 0U;
    return found;
  };
  return static_cast<std::uint32_t>(block::current().collective({what, line, mask, set ? 1U : 0U, 0, result}));
}

/// Returns the value of lane `from`, or garbage if that lane takes no part.
template <class Value>
Value shuffle(const char* what, std::uint32_t mask, Value value, unsigned from, unsigned line) {
  const auto result = [](const arrivals& lanes, std::uint32_t members, unsigned lane) {
    const unsigned source = lanes[lane].argument;
    return (members >> source & 1U) != 0 ? lanes[source].value : 0xCBCBCBCBCBCBCBCBU;
  };
  return value_of<Value>(block::current().collective({what, line, mask, bits_of(value), from, result}));
}

template <class Operation, class Value>
Value reduce(const char* what, std::uint32_t mask, Value value, unsigned line) {
  static_assert(std::is_same_v<Value, unsigned> || std::is_same_v<Value, int>);
  const auto result = [](const arrivals& lanes, std::uint32_t members, unsigned) {
    auto all = value_of<Value>(lanes[static_cast<unsigned>(std::countr_zero(members))].value);
    for (std::uint32_t left = members & (members - 1); left != 0; left &= left - 1) {
      all = Operation{}(all, value_of<Value>(lanes[static_cast<unsigned>(std::countr_zero(left))].value));
    }
    return bits_of(all);
  };
  return value_of<Value>(block::current().collective({what, line, mask, bits_of(value), 0, result}));
}

inline unsigned lane() { return threadIdx.x % 32; }

struct minimum {
  template <class Value>
  Value operator()(Value a, Value b) const {
    return (std::min)(a, b);
  }
};
struct maximum {
  template <class Value>
  Value operator()(Value a, Value b) const {
    return (std::max)(a, b);
  }
};
struct sum {
  template <class Value>
  Value operator()(Value a, Value b) const {
    return static_cast<Value>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  }
};

template <class Value, class Operation>
Value exchange(Value* at, Operation operation) {
  if (reinterpret_cast<std::uintptr_t>(at) % sizeof(Value) != 0) give_up("an atomic access is not aligned");
  const Value old = *at;
  *at = operation(old);
  return old;
}

}  // namespace ecq_emulated

inline void __syncwarp(unsigned mask = ~0U, unsigned line = __builtin_LINE()) {
  ecq_emulated::ballot("__syncwarp", mask, false, line);
}
inline unsigned __ballot_sync(unsigned mask, int set, unsigned line = __builtin_LINE()) {
  return ecq_emulated::ballot("__ballot_sync", mask, set != 0, line);
}
inline int __any_sync(unsigned mask, int set, unsigned line = __builtin_LINE()) {
  return ecq_emulated::ballot("__any_sync", mask, set != 0, line) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int set, unsigned line = __builtin_LINE()) {
  return ecq_emulated::ballot("__all_sync", mask, set == 0, line) == 0 ? 1 : 0;
}
template <class Value>
Value __shfl_sync(unsigned mask, Value value, int from, int width = 32, unsigned line = __builtin_LINE()) {
  const unsigned segment = static_cast<unsigned>(width);
  const unsigned source = ecq_emulated::lane() / segment * segment + static_cast<unsigned>(from) % segment;
  return ecq_emulated::shuffle("__shfl_sync", mask, value, source, line);
}
template <class Value>
Value __shfl_up_sync(unsigned mask, Value value, unsigned by, int width = 32, unsigned line = __builtin_LINE()) {
  const unsigned lane = ecq_emulated::lane();
  const bool inside = lane % static_cast<unsigned>(width) >= by;
  return ecq_emulated::shuffle("__shfl_up_sync", mask, value, inside ? lane - by : lane, line);
}
template <class Value>
Value __shfl_down_sync(unsigned mask, Value value, unsigned by, int width = 32, unsigned line = __builtin_LINE()) {
  const unsigned lane = ecq_emulated::lane();
  const bool inside = lane % static_cast<unsigned>(width) + by < static_cast<unsigned>(width);
  return ecq_emulated::shuffle("__shfl_down_sync", mask, value, inside ? lane + by : lane, line);
}
template <class Value>
Value __shfl_xor_sync(unsigned mask, Value value, int with, int width = 32, unsigned line = __builtin_LINE()) {
  const unsigned lane = ecq_emulated::lane();
  const unsigned source = (lane ^ static_cast<unsigned>(with)) % 32;
  const bool inside = source / static_cast<unsigned>(width) <= lane / static_cast<unsigned>(width);
  return ecq_emulated::shuffle("__shfl_xor_sync", mask, value, inside ? source : lane, line);
}
template <class Value>
Value __reduce_min_sync(unsigned mask, Value value, unsigned line = __builtin_LINE()) {
  return ecq_emulated::reduce<ecq_emulated::minimum>("__reduce_min_sync", mask, value, line);
}
template <class Value>
Value __reduce_max_sync(unsigned mask, Value value, unsigned line = __builtin_LINE()) {
  return ecq_emulated::reduce<ecq_emulated::maximum>("__reduce_max_sync", mask, value, line);
}
template <class Value>
Value __reduce_add_sync(unsigned mask, Value value, unsigned line = __builtin_LINE()) {
  return ecq_emulated::reduce<ecq_emulated::sum>("__reduce_add_sync", mask, value, line);
}

inline void __syncthreads(unsigned line = __builtin_LINE()) {
  ecq_emulated::block::current().barrier("__syncthreads", false, line);
}
inline int __syncthreads_count(int set, unsigned line = __builtin_LINE()) {
  return ecq_emulated::block::current().barrier("__syncthreads_count", set != 0, line).set;
}
inline int __syncthreads_or(int set, unsigned line = __builtin_LINE()) {
  return ecq_emulated::block::current().barrier("__syncthreads_or", set != 0, line).set != 0 ? 1 : 0;
}

template <class Value>
Value atomicAdd(Value* at, std::type_identity_t<Value> value) {
  return ecq_emulated::exchange(at, [&](Value old) { return old + value; });
}
template <class Value>
Value atomicMin(Value* at, std::type_identity_t<Value> value) {
  return ecq_emulated::exchange(at, [&](Value old) { return (std::min)(old, value); });
}
template <class Value>
Value atomicOr(Value* at, std::type_identity_t<Value> value) {
  return ecq_emulated::exchange(at, [&](Value old) { return old | value; });
}

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((std::uint64_t{a} * b) >> 32); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const std::uint64_t both = (std::uint64_t{b} << 32) | a;
  unsigned bytes = 0;
  for (unsigned i = 0; i < 4; ++i) {
    bytes |= static_cast<unsigned>(both >> (8 * (selector >> (4 * i) & 7U)) & 0xFFU) << (8 * i);
  }
  return bytes;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32) | low) >> (by % 32));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>(((((std::uint64_t{high} << 32) | low) << (by % 32))) >> 32);
}

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
