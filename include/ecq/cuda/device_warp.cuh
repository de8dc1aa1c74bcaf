#pragma once
/// \file
/// The lockstep_warp of a device: a lane is a thread, and its value a register. Mirrors tests/support/host_warp.hpp.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/cuda/device_group.cuh"
#include "ecq/format/bf16.hpp"
#include "ecq/format/fp16.hpp"
#include "ecq/format/nearest_finite.hpp"

namespace ecq {

/// The 32 threads of a warp, which call every function together.
struct device_warp {
  static_assert(lane_count == 32, "a warp has 32 lanes");

  using lanes = std::uint32_t;
  using wide_lanes = std::uint64_t;
  using memory = device_access;
  using flags = bool;

  static __device__ lanes lane_numbers() { return threadIdx.x % lane_count; }
  /// Returns `shared`, a pointer to shared memory, such that it stays in a register; the compiler would otherwise
  /// compute it anew in every loop.
  template <class Entry>
  static __device__ const Entry* kept(const Entry* shared) {
#if defined(ECQ_EMULATED_CUDA)
    return shared;
#else
    auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("" : "+r"(address));
    return static_cast<const Entry*>(__cvta_shared_to_generic(address));
#endif
  }
  /// Like kept(), for a pointer to global memory.
  static __device__ std::byte* kept_global(std::byte* place) {
#if !defined(ECQ_EMULATED_CUDA)
    asm volatile("" : "+l"(place));
#endif
    return place;
  }
  /// Returns `x`, which is the same in all lanes, as a value that the compiler knows to be uniform.
  static __device__ std::uint32_t uniform(std::uint32_t x) { return __reduce_min_sync(0xFFFFFFFFU, x); }
  static __device__ std::uint32_t least(lanes x) { return __reduce_min_sync(0xFFFFFFFFU, x); }
  template <class Body>
  static __device__ void each_lane(Body&& body) {
    body(lane_numbers());
  }
  static __device__ std::uint32_t& at(lanes& value, std::uint32_t) { return value; }
  static __device__ std::uint32_t at(const lanes& value, std::uint32_t) { return value; }
  static __device__ std::uint64_t& at(wide_lanes& value, std::uint32_t) { return value; }

  static __device__ flags all() { return true; }
  static __device__ flags below(lanes a, lanes b) { return a < b; }
  static __device__ flags at_least(lanes a, lanes b) { return a >= b; }
  static __device__ flags both(flags a, flags b) { return a && b; }
  static __device__ bool any(flags set) { return __any_sync(0xFFFFFFFFU, set) != 0; }
  static __device__ std::uint32_t ballot(flags set) { return __ballot_sync(0xFFFFFFFFU, set); }
  static __device__ std::uint32_t count(std::uint32_t ballot) { return static_cast<std::uint32_t>(__popc(ballot)); }
  static __device__ lanes lower_lanes() {
    lanes lower = (1U << lane_numbers()) - 1U;
#if !defined(ECQ_EMULATED_CUDA)
    asm volatile("" : "+r"(lower));  // stays in a register
#endif
    return lower;
  }
  static __device__ lanes count_bits(lanes x) { return count(x); }
  static __device__ lanes set_below(std::uint32_t ballot) { return count(ballot & ((1U << lane_numbers()) - 1U)); }
  static __device__ lanes select(flags which, lanes yes, lanes no) { return which ? yes : no; }
  /// Returns the high 32 bits of a * b + addend.
  static __device__ lanes multiply_high(lanes a, lanes b, std::uint32_t addend) {
    return static_cast<lanes>((std::uint64_t{a} * b + addend) >> 32);
  }
  static __device__ float multiply(float a, float b) { return detail::exact_product(a, b); }
  static __device__ lanes append_half(lanes a, lanes b) {
#if defined(ECQ_EMULATED_CUDA)
    return (a << 16) | b;
#else
    lanes both;  // the pipe for products has more room than that for shifts, which the compiler would choose
    asm("mad.lo.u32 %0, %1, 65536, %2;" : "=r"(both) : "r"(a), "r"(b));
    return both;
#endif
  }
  static __device__ lanes shift_right(lanes x, lanes bits) { return __funnelshift_r(x, 0U, bits); }
  static __device__ lanes low_bits(lanes x, lanes bits) {
#if defined(ECQ_EMULATED_CUDA)
    return x & ((1U << (bits % 32)) - 1U);
#else
    lanes low;
    asm("szext.wrap.u32 %0, %1, %2;" : "=r"(low) : "r"(x), "r"(bits));
    return low;
#endif
  }
  static __device__ lanes merge_bits(lanes a, lanes b, std::uint32_t mask) {
#if defined(ECQ_EMULATED_CUDA)
    return (a & mask) | (b & ~mask);
#else
    lanes merged;  // one instruction; the compiler would use two constants
    asm("lop3.b32 %0, %1, %2, %3, 0xE4;" : "=r"(merged) : "r"(a), "r"(b), "r"(mask));
    return merged;
#endif
  }
  static __device__ lanes permute_bytes(lanes a, lanes b, unsigned selector) { return __byte_perm(a, b, selector); }
  static __device__ lanes permute_bytes_by(lanes a, lanes b, lanes selector) {
#if defined(ECQ_EMULATED_CUDA)
    return __byte_perm(a, b, selector);
#else
    lanes bytes;  // the intrinsic function would mask bit 3 of each selector
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(selector));
    return bytes;
#endif
  }
  static __device__ lanes shuffle(lanes x, lanes lane) { return __shfl_sync(0xFFFFFFFFU, x, static_cast<int>(lane)); }
  static __device__ lanes funnel_right(lanes low, lanes high, lanes bits) { return __funnelshift_r(low, high, bits); }

  template <class Entry>
  static __device__ lanes gather(const Entry* table, lanes index) {
    return table[index];
  }

  static __device__ void gather_two(const std::uint32_t* table, lanes index, lanes (&words)[2]) {
    const ::uint2 two = reinterpret_cast<const ::uint2*>(table)[index];
    words[0] = two.x;
    words[1] = two.y;
  }

  template <class Entry>
  static __device__ void gather_four(const Entry* table, lanes offset, lanes (&words)[4]) {
    static_assert(sizeof(Entry) == 16);
    memory::load_16_bytes(reinterpret_cast<const std::byte*>(table) + offset, words);
  }

  template <class Word>
  static __device__ lanes load(flags which, const std::byte* from, lanes index) {
#if defined(ECQ_EMULATED_CUDA)
    lanes word = 0xCBCBCBCBU;
#else
    lanes word;
#endif
    if (which) word = reinterpret_cast<const Word*>(from)[index];
    return word;
  }

  template <class Word>
  static __device__ lanes load_at(const std::byte* from, lanes offset) {
    return *reinterpret_cast<const Word*>(from + offset);
  }

  /// `from` is in global memory.
  template <class Word>
  static __device__ void prefetch(flags which, const std::byte* from, lanes index) {
    if (which) memory::prefetch(from + sizeof(Word) * index);
  }

  /// `place` is in global memory.
  template <std::size_t Words, class Word = std::uint32_t>
  static __device__ void prefetch_own(const std::byte* place) {
    memory::prefetch(place);
  }

  /// `from` is in global memory.
  template <std::size_t Words, class Word = std::uint32_t, class Byte>
  static __device__ Byte* own_place(Byte* from) {
    Byte* const own = from + sizeof(Word) * Words * lane_numbers();
#if defined(ECQ_EMULATED_CUDA)
    return own;
#else
    auto address = __cvta_generic_to_global(own);
    asm volatile("" : "+l"(address));  // computed once, not in every loop
    return static_cast<Byte*>(const_cast<void*>(static_cast<const void*>(__cvta_global_to_generic(address))));
#endif
  }
  /// `from` is in global memory, aligned to the largest power of two, at most 16, that divides sizeof(Word) * Words.
  template <class Word = std::uint32_t, std::size_t Words>
  static __device__ void load_own(flags which, const std::byte* from, lanes (&words)[Words]) {
    ECQ_UNROLL
    for (std::size_t i = 0; i < Words; ++i) words[i] = 0;
    if (!which) return;
    if constexpr (sizeof(Word) == 4 && Words % 4 == 0) {
      ECQ_UNROLL
      for (std::size_t i = 0; i < Words; i += 4) {
        const auto four = in_sequence<::uint4>(from + 4 * i);
        words[i] = four.x;
        words[i + 1] = four.y;
        words[i + 2] = four.z;
        words[i + 3] = four.w;
      }
    } else if constexpr (sizeof(Word) == 4 && Words % 2 == 0) {
      ECQ_UNROLL
      for (std::size_t i = 0; i < Words; i += 2) {
        const auto two = in_sequence<::uint2>(from + 4 * i);
        words[i] = two.x;
        words[i + 1] = two.y;
      }
    } else {
      ECQ_UNROLL
      for (std::size_t i = 0; i < Words; ++i) words[i] = in_sequence<Word>(from + sizeof(Word) * i);
    }
  }

  /// `from` is a place in global memory, `to` is in shared memory.
  static __device__ void copy_own(flags which, std::byte* to, lanes offset, const std::byte* from) {
    if (!which) return;
#if defined(ECQ_EMULATED_CUDA)
    *reinterpret_cast<std::uint64_t*>(to + offset) = *reinterpret_cast<const std::uint64_t*>(from);
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(to)) + offset),
                 "l"(__cvta_generic_to_global(from))
                 : "memory");
#endif
  }
  static __device__ void wait_for_copies() {
#if !defined(ECQ_EMULATED_CUDA)
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncwarp();
  }

  /// `to` is in global memory.
  static __device__ void store_halves(flags which, std::byte* to, lanes index, lanes words) {
    std::byte* const place = to + std::size_t{2} * index;
#if defined(ECQ_EMULATED_CUDA)
    if (which) *reinterpret_cast<std::uint16_t*>(place) = static_cast<std::uint16_t>(words);
#else
    // A branch would compute the condition once more.
    asm volatile("{\n\t.reg .pred which;\n\tsetp.ne.u32 which, %2, 0;\n\t@which st.global.u16 [%0], %1;\n\t}" ::"l"(
                     __cvta_generic_to_global(place)),
                 "h"(static_cast<std::uint16_t>(words)), "r"(which ? 1U : 0U));
#endif
  }

  static __device__ std::uint64_t origin_of([[maybe_unused]] std::byte* out) {
#if defined(ECQ_EMULATED_CUDA)
    return 0;
#else
    return __cvta_generic_to_global(out);  // so that stores need not add anything to a place
#endif
  }
  /// `out` is in global memory, and the place aligned to the number of bytes written.
  template <class Element>
  static __device__ void store_four([[maybe_unused]] std::byte* out, std::uint64_t place, const float (&four)[4]) {
#if defined(ECQ_EMULATED_CUDA)
    std::byte* const to = out + place;
    if constexpr (sizeof(Element) == 2) {
      *reinterpret_cast<::uint2*>(to) = make_uint2(two<Element>(four[0], four[1]), two<Element>(four[2], four[3]));
    } else {
      *reinterpret_cast<::float4*>(to) = make_float4(four[0], four[1], four[2], four[3]);
    }
#else
    if constexpr (sizeof(Element) == 2) {
      asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(place), "r"(two<Element>(four[0], four[1])),
                   "r"(two<Element>(four[2], four[3]))
                   : "memory");
    } else {
      asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(place), "f"(four[0]), "f"(four[1]), "f"(four[2]),
                   "f"(four[3])
                   : "memory");
    }
#endif
  }
  template <class Element>
  static __device__ void store_one(std::byte* to, const Element& one) {
    *reinterpret_cast<Element*>(to) = one;
  }

  /// `to` is aligned to 4 * Words bytes, or 16 if that is less.
  template <std::size_t Words>
  static __device__ void store(std::byte* to, const lanes (&words)[Words]) {
    store_own(own_place<Words>(to), words);
  }
  template <std::size_t Words>
  static __device__ void store_own(std::byte* to, const lanes (&words)[Words]) {
    static_assert(Words == 1 || Words == 2 || Words % 4 == 0);
    if constexpr (Words == 1) {
      *reinterpret_cast<std::uint32_t*>(to) = words[0];
    } else if constexpr (Words == 2) {
      *reinterpret_cast<::uint2*>(to) = make_uint2(words[0], words[1]);
    } else {
      ECQ_UNROLL
      for (std::size_t i = 0; i < Words; i += 4) {
        *reinterpret_cast<::uint4*>(to + 4 * i) = make_uint4(words[i], words[i + 1], words[i + 2], words[i + 3]);
      }
    }
  }
  template <std::size_t Words>
  static __device__ void store_own_bytes(std::byte* to, const lanes (&words)[Words], std::uint32_t first,
                                         std::uint32_t last) {
    std::uint32_t own = 4 * Words * lane_numbers();
    lanes left[Words];
    ECQ_UNROLL
    for (std::size_t i = 0; i < Words; ++i) left[i] = words[i];
    ECQ_NO_UNROLL
    for (std::size_t word = 0; word < Words; ++word, to += 4) {  // each word in turn moves to the front
      ECQ_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i, ++own) {
        if (own >= first && own < last) to[i] = static_cast<std::byte>(left[0] >> (8 * i));
      }
      ECQ_UNROLL
      for (std::size_t i = 1; i < Words; ++i) left[i - 1] = left[i];
    }
  }

 private:
  /// Loads from memory that nothing writes meanwhile, and makes the L2 cache fetch the 256 bytes around it, which are
  /// read next.
  template <class Words>
  static __device__ Words in_sequence(const std::byte* from) {
#if defined(ECQ_EMULATED_CUDA)
    return *reinterpret_cast<const Words*>(from);
#else
    const auto address = __cvta_generic_to_global(from);
    Words words;
    if constexpr (sizeof(Words) == 16) {
      asm("ld.global.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];"
          : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
          : "l"(address));
    } else if constexpr (sizeof(Words) == 8) {
      asm("ld.global.L2::256B.v2.b32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "l"(address));
    } else if constexpr (sizeof(Words) == 4) {
      asm("ld.global.L2::256B.b32 %0, [%1];" : "=r"(words) : "l"(address));
    } else {
      static_assert(sizeof(Words) == 2);
      asm("ld.global.L2::256B.b16 %0, [%1];" : "=h"(words) : "l"(address));
    }
    return words;
#endif
  }

  /// Converts two numbers to elements of 16 bits as nearest_finite does, in one instruction.
  template <class Element>
  static __device__ std::uint32_t two(float low, float high) {
#if defined(ECQ_EMULATED_CUDA)
    return nearest_finite<Element>(low).bits | (std::uint32_t{nearest_finite<Element>(high).bits} << 16);
#else
    std::uint32_t both;
    if constexpr (std::is_same_v<Element, bf16>) {
      asm("cvt.rn.satfinite.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    } else {
      static_assert(std::is_same_v<Element, fp16>);
      asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    }
    return both;
#endif
  }
};
static_assert(lockstep_warp<device_warp>);

/// A device_warp for sinks that write to shared memory, or to any memory: warp_element_sink, warp_pair_sink.
struct device_warp_to_shared : device_warp {
  template <std::size_t Words, class Word = std::uint32_t, class Byte>
  static __device__ Byte* own_place(Byte* from) {
    return from + sizeof(Word) * Words * lane_numbers();
  }
};
static_assert(lockstep_warp<device_warp_to_shared>);

}  // namespace ecq
