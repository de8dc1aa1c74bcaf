#pragma once
/// \file
/// Tools by which a suite measures on a device. This header comes before the library's headers.

#include <cuda_runtime.h>
#include <cxxabi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data.hpp"
#include "session.hpp"

namespace ecq_bench {

/// Kernel that was launched since the list `launched` was cleared. The list has each kernel once.
struct launched_kernel {
  const void* function;
  std::size_t dynamic_shared;
};
inline std::vector<launched_kernel> launched;

template <class... Parameters, class... Arguments>
cudaError_t observed_launch(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  const auto* const function = reinterpret_cast<const void*>(kernel);
  if (std::none_of(launched.begin(), launched.end(), [&](const auto& one) { return one.function == function; })) {
    launched.push_back({function, config->dynamicSmemBytes});
  }
  return cudaLaunchKernelEx(config, kernel, std::forward<Arguments>(arguments)...);
}

}  // namespace ecq_bench

// The library launches kernels in one place. From here on, that place records which, so that each row names the kernels
// that ran, and no list of kernels has to follow the library's.
#define cudaLaunchKernelEx ecq_bench::observed_launch

#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/launch.cuh"
#include "ecq/cuda/verdict.cuh"

namespace ecq_bench {

/// Owner of device memory, or of none.
class device_memory {
 public:
  device_memory() = default;
  device_memory(device_memory&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  device_memory& operator=(device_memory&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~device_memory() {
    if (memory_ != nullptr) cudaFree(memory_);
  }
  static ecq::result<device_memory> of(std::size_t size) {
    device_memory made;
    ECQ_CHECK(ecq::detail::check_cuda(cudaMalloc(&made.memory_, size), "allocating device memory"));
    return ecq::result<device_memory>(std::move(made));
  }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
};

#if defined(ECQ_EMULATED_CUDA)  // only shows that everything works
inline constexpr std::size_t most_buffers = 2;
inline constexpr std::size_t turns = 1;
inline constexpr double warm_up_seconds = 0;
#else
inline constexpr std::size_t most_buffers = 32;
inline constexpr std::size_t turns = 9;
inline constexpr double warm_up_seconds = 0.02;
#endif

/// Maximum size up to which chunks of other than the default length are measured, too. Beyond it, a row takes the host
/// some seconds.
inline constexpr std::size_t most_for_other_chunks = std::size_t{512} << 20;

/// Returns how many buffers of `size` bytes take turns, so that their contents do not stay in the cache.
inline std::size_t rotated_buffers(std::size_t size) {
  return std::clamp<std::size_t>((std::size_t{256} << 20) / size, 2, most_buffers);
}

inline ecq::result<std::vector<device_memory>> buffers(std::size_t count, std::size_t size) {
  std::vector<device_memory> made;
  for (std::size_t i = 0; i < count; ++i) {
    ECQ_TRY(one, device_memory::of(size));
    made.push_back(std::move(one));
  }
  return ecq::result<std::vector<device_memory>>(std::move(made));
}

/// Returns the seconds that one call of `launch(i)` takes, i = 0 .. calls - 1: the median of `turns` turns of all
/// calls. Before these, at least one turn, and turns until warm_up_seconds are over, do not count: the clock of a
/// device that had nothing to do while the host encoded takes longer to rise than small sizes take to decode.
template <class Launch>
ecq::result<double> seconds_of(std::size_t calls, Launch&& launch) {
  cudaEvent_t events[2] = {};
  const auto measure = [&]() -> ecq::result<double> {
    const auto check = [](cudaError_t status) { return ecq::detail::check_cuda(status, "measuring time"); };
    for (cudaEvent_t& event : events) ECQ_CHECK(check(cudaEventCreate(&event)));
    std::vector<double> all;
    const auto begun = std::chrono::steady_clock::now();
    for (bool warm = false; all.size() < turns;) {
      ECQ_CHECK(check(cudaEventRecord(events[0])));
      for (std::size_t i = 0; i < calls; ++i) ECQ_CHECK(launch(i));
      ECQ_CHECK(check(cudaEventRecord(events[1])));
      ECQ_CHECK(check(cudaEventSynchronize(events[1])));
      float milliseconds = 0;
      ECQ_CHECK(check(cudaEventElapsedTime(&milliseconds, events[0], events[1])));
      if (warm) all.push_back(milliseconds * 1e-3 / static_cast<double>(calls));
      warm = warm || std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count() >= warm_up_seconds;
    }
    std::nth_element(all.begin(), all.begin() + turns / 2, all.end());
    return all[turns / 2];
  };
  auto measured = measure();
  for (cudaEvent_t event : events) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  return measured;
}

/// Returns facts about the kernels launched since `launched` was cleared, by their own names.
inline std::vector<kernel_facts> facts_of_launched() {
  std::vector<kernel_facts> all;
  for ([[maybe_unused]] const launched_kernel& one : launched) {
    kernel_facts facts;
#if !defined(ECQ_EMULATED_CUDA)
    cudaFuncAttributes attributes{};
    if (cudaFuncGetAttributes(&attributes, one.function) == cudaSuccess) {
      facts.registers = attributes.numRegs;
      facts.shared = attributes.sharedSizeBytes + one.dynamic_shared;
      facts.spilled = attributes.localSizeBytes;
    }
#if CUDART_VERSION >= 12030
    const char* mangled = nullptr;
    if (cudaFuncGetName(&mangled, one.function) == cudaSuccess) {
      int status = 0;
      const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                         &std::free);
      facts.name = status == 0 ? plain.get() : mangled;
      // Removes parameters. They follow a template's arguments, which may have parentheses themselves, or else the
      // name.
      const std::size_t arguments = facts.name.rfind(">(");
      facts.name.resize(
          (std::min)(arguments != std::string::npos ? arguments + 1 : facts.name.find('('), facts.name.size()));
      for (std::size_t at; (at = facts.name.find("ecq::")) != std::string::npos;) facts.name.erase(at, 5);
      if (facts.name.starts_with("void ")) facts.name.erase(0, 5);
    }
#endif
#endif
    all.push_back(std::move(facts));
  }
  return all;
}

/// Measures the time of `launch` and the kernels that it took. `verdict` must be clear afterwards.
template <class Launch>
ecq::result<figure> measured(const ecq::device_verdict& verdict, std::size_t calls, Launch&& launch) {
  const ecq::cuda gpu;
  ECQ_CHECK(verdict.clear(gpu));
  launched.clear();
  ECQ_TRY(seconds, seconds_of(calls, launch));
  ECQ_CHECK(verdict.wait(gpu));
  figure found;
  found.seconds = seconds;
  found.kernels = facts_of_launched();
  return found;
}

/// Fails with errc::corrupt unless device memory holds the bytes that are expected. Compares piece by piece, since new
/// memory of the host costs more than the copy does.
inline ecq::result<void> check_same(const std::byte* device, std::span<const std::byte> expected) {
  bytes got((std::min)(expected.size(), std::size_t{64} << 20));
  for (std::size_t at = 0; at < expected.size(); at += got.size()) {
    const std::span<const std::byte> part = expected.subspan(at, (std::min)(got.size(), expected.size() - at));
    ECQ_CHECK(ecq::detail::check_cuda(cudaMemcpy(got.data(), device + at, part.size(), cudaMemcpyDeviceToHost),
                                      "reading what a device wrote"));
    if (!same({got.data(), part.size()}, part)) {
      return ecq::error(ecq::errc::corrupt, "the device wrote something else than the CPU");
    }
  }
  return {};
}

/// Measures how long a copy on the device takes, once per size, in buffers of its own.
inline ecq::result<void> measure_copy(session& run, std::size_t size) {
  if (run.copy_seconds(size) > 0) return {};
  const std::size_t count = rotated_buffers(size);
  ECQ_TRY(places, buffers(count + 1, size));
  ECQ_TRY(seconds, seconds_of(count, [&](std::size_t i) {
            return ecq::detail::check_cuda(
                cudaMemcpyAsync(places[i].data(), places[i + 1].data(), size, cudaMemcpyDeviceToDevice),
                "copying on the device");
          }));
  run.know_copy(size, seconds);
  return {};
}

}  // namespace ecq_bench
