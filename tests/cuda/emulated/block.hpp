#pragma once
// A block of threads on one thread of the operating system. A thread runs until it waits for others of its warp or
// block; then the next one runs. The order changes from block to block, so that a missing barrier shows.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/emulated/fiber.hpp"

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  unsigned x, y, z;
};

inline constexpr int warpSize = 32;
inline uint3 threadIdx{};
inline uint3 blockIdx{};
inline dim3 blockDim;
inline dim3 gridDim;

namespace ecq_emulated {

inline constexpr unsigned most_threads = 1024;

/// Contribution of a lane to a collective operation.
struct arrival {
  const char* what = nullptr;
  unsigned line = 0;
  std::uint32_t mask = 0;
  std::uint64_t value = 0;
  std::uint32_t argument = 0;
  std::uint64_t (*result)(const std::array<arrival, 32>& lanes, std::uint32_t mask, unsigned lane) = nullptr;

  bool same_place(const arrival& other) const {
    return result == other.result && line == other.line && mask == other.mask;
  }
};
using arrivals = std::array<arrival, 32>;

class block {
 public:
  static block& current() {
    static block only;
    return only;
  }

  /// Runs body(context) in each of `threads` threads. Returns a text of what went wrong, empty if nothing did.
  std::string run(unsigned threads, void (*body)(void*), void* context, std::uint32_t order) {
    body_ = body;
    context_ = context;
    order_ = order;
    why_ = nullptr;
    barrier_ = {};
    alive_ = threads;
    while (fibers_.size() < threads) fibers_.push_back(std::make_unique<fiber>(&thread));
    warp_count_ = (threads + 31) / 32;
    for (unsigned i = 0; i < warp_count_; ++i) {
      const unsigned lanes = std::min(threads - 32 * i, 32U);
      warps_[i] = {};
      warps_[i].alive = warps_[i].runnable = lanes == 32 ? ~0U : (1U << lanes) - 1;
    }
    resume_next(host_);
    if (why_ == nullptr) return {};
    for (const auto& one : fibers_) one->start_again();
    return report();
  }

  /// Returns the result of a collective operation of the lanes in `mask` for the calling lane.
  std::uint64_t collective(const arrival& mine) {
    const unsigned lane = thread_ % 32;
    warp& own = warps_[thread_ / 32];
    own.lanes[lane] = mine;
    own.waiting |= 1U << lane;
    own.runnable &= ~(1U << lane);
    if ((mine.mask >> lane & 1U) == 0) fail("a lane calls that is not in its own mask");
    if (!complete(own, mine)) resume_next(*fibers_[thread_]);
    return own.results[lane];
  }

  struct votes {
    unsigned threads = 0;  ///< number that have arrived
    int set = 0;           ///< number with a value other than zero
  };

  /// Waits for all threads of the block that have not left.
  votes barrier(const char* what, bool set, unsigned line) {
    warp& own = warps_[thread_ / 32];
    const std::uint32_t lane = 1U << (thread_ % 32);
    own.lanes[thread_ % 32] = {what, line};
    if (barrier_.threads != 0 && (barrier_what_ != what || barrier_line_ != line)) {
      own.at_barrier |= lane;
      fail("threads wait at different barriers");
    }
    barrier_what_ = what;
    barrier_line_ = line;
    own.at_barrier |= lane;
    own.runnable &= ~lane;
    ++barrier_.threads;
    barrier_.set += set ? 1 : 0;
    if (!open_barrier()) resume_next(*fibers_[thread_]);
    return opened_;
  }

 private:
  struct warp {
    std::uint32_t alive = 0;
    std::uint32_t runnable = 0;
    std::uint32_t waiting = 0;  ///< lanes that wait for others of the warp
    std::uint32_t at_barrier = 0;
    arrivals lanes;
    std::array<std::uint64_t, 32> results{};
  };

  static void thread() {
    for (;;) {
      block& own = current();
      own.body_(own.context_);
      own.leave();
    }
  }

  /// Ends the running thread; others no longer wait for it.
  void leave() {
    warp& own = warps_[thread_ / 32];
    const std::uint32_t lane = 1U << (thread_ % 32);
    own.alive &= ~lane;
    own.runnable &= ~lane;
    --alive_;
    for (std::uint32_t left = own.waiting; left != 0; left &= left - 1) {
      if ((own.waiting & left & (0U - left)) != 0) complete(own, own.lanes[lowest(left)]);
    }
    if (barrier_.threads != 0) open_barrier();
    fiber& mine = *fibers_[thread_];
    if (alive_ == 0) {
      mine.switch_to(host_);
    } else {
      resume_next(mine);
    }
  }

  static unsigned lowest(std::uint32_t mask) { return static_cast<unsigned>(std::countr_zero(mask)); }

  /// Lets the lanes go on that wait like `mine`, if they are all lanes of its mask that have not left.
  static bool complete(warp& own, const arrival& mine) {
    const std::uint32_t members = mine.mask & own.alive;
    if ((own.waiting & members) != members) return false;
    for (std::uint32_t left = members; left != 0; left &= left - 1) {
      if (!own.lanes[lowest(left)].same_place(mine)) return false;
    }
    for (std::uint32_t left = members; left != 0; left &= left - 1) {
      own.results[lowest(left)] = mine.result(own.lanes, members, lowest(left));
    }
    own.waiting &= ~members;
    own.runnable |= members;
    return true;
  }

  bool open_barrier() {
    if (barrier_.threads != alive_) return false;
    opened_ = barrier_;
    barrier_ = {};
    for (unsigned i = 0; i < warp_count_; ++i) {
      warps_[i].runnable |= warps_[i].at_barrier;
      warps_[i].at_barrier = 0;
    }
    return true;
  }

  /// Switches to the next thread that can run, of this warp or else of another.
  void resume_next(fiber& mine) {
    const bool forwards = (order_ & 1U) != 0;
    unsigned number = thread_ / 32 % warp_count_;
    for (unsigned turn = 0; turn < warp_count_; ++turn) {
      if (const std::uint32_t runnable = warps_[number].runnable; runnable != 0) {
        const unsigned lane = forwards ? lowest(runnable) : 31U - static_cast<unsigned>(std::countl_zero(runnable));
        thread_ = 32 * number + lane;
        threadIdx.x = thread_;
        mine.switch_to(*fibers_[thread_]);
        return;
      }
      number = (order_ & 2U) != 0 ? (number + 1) % warp_count_ : (number + warp_count_ - 1) % warp_count_;
    }
    fail("threads wait for each other");
  }

  /// Returns to the host for good. Objects on the threads' stacks are never destroyed, so nothing is allocated there.
  void fail(const char* why) {
    why_ = why;
    fibers_[thread_]->switch_to(host_);
  }

  /// Returns the reason of the failure, and what each different wait was about.
  std::string report() const {
    std::string text =
        std::string(why_) + ": block " + std::to_string(blockIdx.x) + ", thread " + std::to_string(thread_);
    std::vector<const arrival*> told;
    for (unsigned i = 0; i < 32 * warp_count_; ++i) {
      const warp& own = warps_[i / 32];
      const std::uint32_t lane = 1U << (i % 32);
      if (((own.waiting | own.at_barrier) & lane) == 0) continue;
      const arrival& one = own.lanes[i % 32];
      if (told.size() < 4 && std::none_of(told.begin(), told.end(), [&](auto* old) { return old->same_place(one); })) {
        told.push_back(&one);
        text += "; thread " + std::to_string(i) + " waits in " + one.what + ", line " + std::to_string(one.line);
        if ((own.waiting & lane) != 0) text += ", mask " + std::to_string(one.mask);
      }
    }
    return text;
  }

  fiber host_;
  std::vector<std::unique_ptr<fiber>> fibers_;
  std::array<warp, most_threads / 32> warps_;
  unsigned warp_count_ = 0;
  unsigned thread_ = 0;
  unsigned alive_ = 0;
  std::uint32_t order_ = 0;
  votes barrier_;
  votes opened_;
  const char* barrier_what_ = nullptr;
  unsigned barrier_line_ = 0;
  const char* why_ = nullptr;
  void (*body_)(void*) = nullptr;
  void* context_ = nullptr;
};

}  // namespace ecq_emulated
