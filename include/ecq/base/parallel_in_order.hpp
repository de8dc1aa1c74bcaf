#pragma once
/// \file
/// A loop that makes items in parallel and puts them together in order.

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"

namespace ecq {

/// Calls `make(index, item)` for every index below `count` on all threads, and `take(index, item)` afterwards with the
/// same item, one call at a time and by ascending index, while other threads go on making. `make` gets an item as an
/// earlier `take` left it, so that its memory is reused; there are at most two items per thread. Either function may
/// throw std::bad_alloc, which becomes errc::out_of_memory.
template <class Item, class Make, class Take>
result<void> parallel_in_order(const cpu& backend, std::size_t count, const Make& make, const Take& take) {
  const std::size_t window = 2 * (std::min)(std::size_t{backend.thread_count()}, (std::max)(count, std::size_t{1}));
  std::vector<std::unique_ptr<Item>> made(window);  // by index modulo window
  std::vector<std::unique_ptr<Item>> spare;         // the last one is the most likely to be in a cache
  spare.reserve(window);
  std::size_t next = 0;  // index of the next item to take
  bool taking = false;
  bool failed = false;
  std::mutex guard;
  std::condition_variable moved_on;

  const auto run = [&](std::size_t index) {
    std::unique_lock lock(guard);
    moved_on.wait(lock, [&] { return failed || index < next + window; });
    if (failed) return;
    std::unique_ptr<Item> item;
    if (!spare.empty()) {
      item = std::move(spare.back());
      spare.pop_back();
    }
    lock.unlock();
    if (!item) item = std::make_unique<Item>();
    make(index, *item);
    lock.lock();
    made[index % window] = std::move(item);
    if (taking) return;  // the thread that takes will get to it
    taking = true;
    while (made[next % window]) {
      item = std::move(made[next % window]);
      lock.unlock();
      take(next, *item);
      lock.lock();
      spare.push_back(std::move(item));
      ++next;
      moved_on.notify_all();
    }
    taking = false;
  };
  // If a thread leaves by an exception, the other threads stop waiting for it.
  struct departure {
    std::mutex& guard;
    std::condition_variable& moved_on;
    bool& failed;
    bool done = false;
    ~departure() {
      if (done) return;
      const std::scoped_lock lock(guard);
      failed = true;
      moved_on.notify_all();
    }
  };
  return parallel_for(backend, count, [&](std::size_t index) -> result<void> {
    departure from_loop{guard, moved_on, failed};
    run(index);
    from_loop.done = true;
    return {};
  });
}

}  // namespace ecq
