#pragma once
/// \file
/// Concepts for threads that run one body together. Such code is written once, over one of these concepts, and runs on
/// devices and on the host:
///
///  - thread_group: every thread runs the body from beginning to end on its own share of the work. The host's group is
///    one thread (base/host_group.hpp);
///  - stepped_group: the body is divided into steps, and all threads take a step before the next one begins. On the
///    host, one thread takes each step for all of them, one after another;
///  - lockstep_warp: the lanes of a warp run in step, and one object holds a value for each lane. A device keeps the
///    value in a register, the host in an array.
///
/// Devices implement these concepts in cuda/device_group.cuh, device_row_group.cuh, device_gap_group.cuh and
/// device_warp.cuh; the host implements them in tests/support/host_*.hpp, where each operation is described.

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace ecq {

/// Access of one thread to memory that other threads use too: little-endian words, each aligned to its size.
template <class Memory>
concept thread_memory = requires(const std::byte* from, std::byte* to, std::uint32_t (&loaded)[4],
                                 const std::uint32_t (&words)[4], std::uint32_t& counter, std::uint64_t& sum) {
  { Memory::template load<std::uint16_t>(from) } -> std::same_as<std::uint16_t>;
  { Memory::template load<std::uint32_t>(from, counter) } -> std::same_as<std::uint32_t>;
  { Memory::template load<std::uint64_t>(from) } -> std::same_as<std::uint64_t>;
  Memory::store(to, std::uint16_t{});
  Memory::store(to, std::uint64_t{});
  Memory::load_16_bytes(from, loaded);
  Memory::store_16_bytes(to, words);
  Memory::prefetch(from);
  Memory::increment(counter);
  Memory::add(sum, sum);
};

/// Threads that run one body together. `rank` is the number of the thread. After `sync`, all threads read what each of
/// them wrote before it.
template <class Group>
concept thread_group = thread_memory<typename Group::memory> && requires(const Group& group) {
  { group.rank() } -> std::same_as<std::uint32_t>;
  { group.size() } -> std::same_as<std::uint32_t>;
  group.sync();
};

/// A thread_group that computes sums: `exclusive_sum` gives each thread the sum of the values of lower ranks, and sets
/// `all` to the sum of all values.
template <class Group>
concept summing_group = thread_group<Group> && requires(const Group& group, std::uint64_t value, std::uint64_t& all) {
  { group.exclusive_sum(value, all) } -> std::same_as<std::uint64_t>;
};

/// A summing_group whose threads see each other's registers: the lanes of a warp, or some neighbouring ones.
template <class Group>
concept shuffling_group = summing_group<Group> &&
                          requires(const Group& group, std::uint64_t value, std::uint32_t number, std::uint32_t& all) {
                            { group.exclusive_sum(number, all) } -> std::same_as<std::uint32_t>;
                            { group.sum(value) } -> std::same_as<std::uint64_t>;
                            { group.first_of_largest(value, number) } -> std::same_as<std::uint32_t>;
                            { group.value_of(value, number) } -> std::same_as<std::uint64_t>;
                            { group.value_behind(value, number) } -> std::same_as<std::uint64_t>;
                          };

/// Threads that take the steps of one body together; their number is a constant. `each_thread` calls a step with the
/// number of the thread, `own<Value>` holds a value that each thread keeps from step to step, and `at` returns it.
template <class Group>
concept stepped_group = thread_memory<typename Group::memory> && (Group::size() != 0) &&
                        requires(Group& group, typename Group::template own<std::uint32_t>& values,
                                 std::uint32_t thread, void (*step)(std::uint32_t)) {
                          { Group::size() } -> std::same_as<std::uint32_t>;
                          { Group::at(values, thread) } -> std::same_as<std::uint32_t&>;
                          Group::each_thread(step);
                          group.sync();
                        };

/// A 32-bit value for each lane, with the operators of such a value.
template <class Lanes>
concept lane_values = std::default_initializable<Lanes> && std::copyable<Lanes> &&
                      std::constructible_from<Lanes, std::uint32_t> && requires(const Lanes& a, unsigned bits) {
                        { a + a } -> std::same_as<Lanes>;
                        { a - a } -> std::same_as<Lanes>;
                        { a* a } -> std::same_as<Lanes>;
                        { a | a } -> std::same_as<Lanes>;
                        { a& a } -> std::same_as<Lanes>;
                        { a& bits } -> std::same_as<Lanes>;
                        { a << bits } -> std::same_as<Lanes>;
                        { a >> bits } -> std::same_as<Lanes>;
                      };

namespace detail {

/// Operations by which the lanes of a warp communicate; `flags` holds a truth value for each lane.
template <class Warp>
concept voting_warp =
    requires(typename Warp::flags set, typename Warp::lanes& value, const typename Warp::lanes& values,
             typename Warp::wide_lanes& wide, std::uint32_t same, void (*body)(std::uint32_t)) {
      { Warp::at(wide, same) } -> std::same_as<std::uint64_t&>;
      { Warp::lane_numbers() } -> std::same_as<typename Warp::lanes>;
      Warp::each_lane(body);
      { Warp::at(value, same) } -> std::same_as<std::uint32_t&>;
      { Warp::at(values, same) } -> std::same_as<std::uint32_t>;
      { Warp::uniform(same) } -> std::same_as<std::uint32_t>;
      { Warp::least(values) } -> std::same_as<std::uint32_t>;
      { Warp::all() } -> std::same_as<typename Warp::flags>;
      { Warp::below(values, values) } -> std::same_as<typename Warp::flags>;
      { Warp::at_least(values, values) } -> std::same_as<typename Warp::flags>;
      { Warp::both(set, set) } -> std::same_as<typename Warp::flags>;
      { Warp::any(set) } -> std::same_as<bool>;
      { Warp::ballot(set) } -> std::same_as<std::uint32_t>;
      { Warp::count(same) } -> std::same_as<std::uint32_t>;
      { Warp::lower_lanes() } -> std::same_as<typename Warp::lanes>;
      { Warp::set_below(same) } -> std::same_as<typename Warp::lanes>;
      { Warp::shuffle(values, values) } -> std::same_as<typename Warp::lanes>;
    };

/// Operations of each lane on its own bits.
template <class Warp>
concept computing_warp = requires(typename Warp::flags set, const typename Warp::lanes& a, std::uint32_t bits) {
  { Warp::select(set, a, a) } -> std::same_as<typename Warp::lanes>;
  { Warp::count_bits(a) } -> std::same_as<typename Warp::lanes>;
  { Warp::multiply_high(a, a, bits) } -> std::same_as<typename Warp::lanes>;
  { Warp::multiply(1.0F, 1.0F) } -> std::same_as<float>;
  { Warp::append_half(a, a) } -> std::same_as<typename Warp::lanes>;
  { Warp::shift_right(a, a) } -> std::same_as<typename Warp::lanes>;
  { Warp::funnel_right(a, a, a) } -> std::same_as<typename Warp::lanes>;
  { Warp::low_bits(a, a) } -> std::same_as<typename Warp::lanes>;
  { Warp::merge_bits(a, a, bits) } -> std::same_as<typename Warp::lanes>;
  { Warp::permute_bytes(a, a, bits) } -> std::same_as<typename Warp::lanes>;
  { Warp::permute_bytes_by(a, a, a) } -> std::same_as<typename Warp::lanes>;
};

/// Operations by which lanes read and write, each at its own index or its own place.
template <class Warp>
concept accessing_warp =
    requires(typename Warp::flags set, const typename Warp::lanes& index, const std::byte* from, std::byte* to,
             const std::uint32_t* table, const std::uint32_t (*entries)[4], typename Warp::lanes (&loaded)[2],
             typename Warp::lanes (&four)[4], const typename Warp::lanes (&words)[2], const float (&numbers)[4],
             std::uint32_t end) {
      { Warp::gather(table, index) } -> std::same_as<typename Warp::lanes>;
      Warp::gather_two(table, index, loaded);
      Warp::gather_four(entries, index, four);
      { Warp::template load<std::uint16_t>(set, from, index) } -> std::same_as<typename Warp::lanes>;
      { Warp::template load_at<std::uint16_t>(from, index) } -> std::same_as<typename Warp::lanes>;
      Warp::template prefetch<std::uint32_t>(set, from, index);
      Warp::template prefetch_own<2>(from);
      { Warp::template own_place<2>(from) } -> std::same_as<const std::byte*>;
      { Warp::template own_place<2>(to) } -> std::same_as<std::byte*>;
      Warp::load_own(set, from, loaded);
      Warp::copy_own(set, to, index, from);
      Warp::wait_for_copies();
      Warp::store_own(to, words);
      Warp::store_own_bytes(to, words, end, end);
      Warp::store(to, words);
      Warp::store_halves(set, to, index, index);
      { Warp::kept_global(to) } -> std::same_as<std::byte*>;
      { Warp::origin_of(to) } -> std::same_as<std::uint64_t>;
      Warp::template store_four<float>(to, std::uint64_t{}, numbers);
      Warp::store_one(to, 1.0F);
    };

}  // namespace detail

/// The 32 lanes of a warp. All lanes call every function together, except those that one lane may call inside
/// `each_lane`: `at`, `store_four` and `store_one`.
template <class Warp>
concept lockstep_warp = lane_values<typename Warp::lanes> && thread_memory<typename Warp::memory> &&
                        detail::voting_warp<Warp> && detail::computing_warp<Warp> && detail::accessing_warp<Warp>;

}  // namespace ecq
