#pragma once
// The CUDA runtime, as far as this project uses it, for kernels compiled as C++ and run on the host: found instead of
// NVIDIA's header by the tests that need no device. What lies on a stream is done when somebody waits, and no sooner.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define ECQ_EMULATED_CUDA 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
// Blocks run one after another: what the function keeps is a block's own, with what the block before left in it.
#define __shared__ static

#include "cuda/emulated/intrinsics.hpp"
#include "cuda/emulated/memory.hpp"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureImplicit = 906
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int multiProcessorCount;
  int major;
  int minor;
};
struct cudaLaunchAttribute;
using cudaStream_t = struct ecq_emulated_stream*;
using cudaEvent_t = struct ecq_emulated_event*;
struct ecq_emulated_stream {};
using cudaGraph_t = std::vector<std::function<void()>>*;
using cudaGraphExec_t = cudaGraph_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
struct ecq_emulated_event {
  std::chrono::steady_clock::time_point when;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace ecq_emulated {

inline constexpr std::size_t plain_shared_bytes = std::size_t{48} << 10;
inline constexpr std::size_t most_shared_bytes = 232448;  // of an H100
inline constexpr int multiprocessors = 4;

class device {
 public:
  static device& only() {
    static device one;
    return one;
  }

  /// What a kernel that failed left behind, until the device is reset.
  cudaError_t status() const { return failure_.empty() ? cudaSuccess : cudaErrorLaunchFailure; }
  const char* failure() const { return failure_.c_str(); }
  void reset() {
    waiting_.clear();
    failure_.clear();
    last_ = cudaSuccess;
  }

  cudaError_t begin_capture(cudaStream_t stream) {
    if (captured_ != nullptr) return told(cudaErrorInvalidValue);
    if (stream == nullptr) return told(cudaErrorStreamCaptureUnsupported);
    captured_ = new std::vector<std::function<void()>>;
    capturing_ = stream;
    spoilt_ = false;
    return cudaSuccess;
  }
  cudaError_t end_capture(cudaGraph_t* graph) {
    *graph = std::exchange(captured_, nullptr);
    if (*graph == nullptr) return told(cudaErrorInvalidValue);
    if (!spoilt_) return cudaSuccess;
    delete std::exchange(*graph, nullptr);
    return told(cudaErrorStreamCaptureInvalidated);
  }
  /// An error while a stream is captured, whose graph is then lost: for whatever waits, allocates, or copies memory
  /// of the host, which a graph would read when it is launched. Devices allow some of it, depending on mode and driver.
  cudaError_t refuse_in_capture(cudaError_t error = cudaErrorStreamCaptureUnsupported) {
    if (captured_ == nullptr) return cudaSuccess;
    spoilt_ = true;
    return told(error);
  }
  /// Keeps the error for cudaGetLastError.
  cudaError_t told(cudaError_t error) {
    if (error != cudaSuccess) last_ = error;
    return error;
  }
  cudaError_t last() { return std::exchange(last_, cudaSuccess); }

  cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
    if (stream == nullptr) {  // which waits for all other streams
      if (const cudaError_t error = refuse_in_capture(cudaErrorStreamCaptureImplicit); error != cudaSuccess)
        return error;
    }
    const bool captures = captured_ != nullptr && stream == capturing_;
    if (failure_.empty()) (captures ? captured_->emplace_back() : waiting_.emplace_back()) = std::move(work);
    return told(status());
  }
  cudaError_t synchronize() {
    if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
    if (waiting_.empty()) return told(status());
    device_heap::only().open(true);
    while (!waiting_.empty() && failure_.empty()) {
      const std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      work();
    }
    device_heap::only().open(false);
    return told(status());
  }

  std::size_t shared_of_block = most_shared_bytes;      ///< that kernels may ask for; tests may make it less
  std::map<const void*, std::size_t> shared_of_kernel;  ///< where more than is plain was asked for

  /// All blocks of a grid, in some order. The kernel whose number is asked for by the environment fails.
  void run(const cudaLaunchConfig_t& config, void (*body)(void*), void* context) {
    if (++kernels_ == faulty_) failure_ = "a fault was asked for";
    const std::uint64_t blocks = config.gridDim.x;
    const std::uint64_t offset = random_() % blocks;
    std::uint64_t stride = random_() % blocks + 1;
    while (std::gcd(stride, blocks) != 1) ++stride;
    gridDim = config.gridDim;
    blockDim = config.blockDim;
    for (std::uint64_t i = 0; i < blocks && failure_.empty(); ++i) {
      blockIdx.x = static_cast<unsigned>((offset + i * stride) % blocks);
      ASAN_UNPOISON_MEMORY_REGION(shared_, sizeof shared_);
      std::memset(shared(), 0xCB, config.dynamicSmemBytes);
      ASAN_POISON_MEMORY_REGION(shared_, sizeof shared_);
      ASAN_UNPOISON_MEMORY_REGION(shared(), config.dynamicSmemBytes);
      failure_ = block::current().run(blockDim.x, body, context, static_cast<std::uint32_t>(random_()));
    }
    if (!failure_.empty()) std::fprintf(stderr, "emulated CUDA: %s\n", failure_.c_str());
  }
  std::byte* shared() { return shared_ + 16; }  // aligned to no more than is promised

 private:
  static unsigned long of_environment(const char* name, unsigned long otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoul(text, nullptr, 10);
  }

  std::deque<std::function<void()>> waiting_;
  cudaGraph_t captured_ = nullptr;  ///< where work goes while a stream is captured
  cudaStream_t capturing_ = nullptr;
  bool spoilt_ = false;  ///< the graph
  std::string failure_;
  cudaError_t last_ = cudaSuccess;
  unsigned long kernels_ = 0;
  unsigned long faulty_ = of_environment("ECQ_EMULATED_FAULT", 0);
  std::minstd_rand random_{static_cast<std::uint32_t>(of_environment("ECQ_EMULATED_SEED", 1))};
  alignas(256) std::byte shared_[most_shared_bytes + 512];
};

}  // namespace ecq_emulated

/// The dynamic shared memory of the block that runs.
inline void* emulated_shared_memory() { return ecq_emulated::device::only().shared(); }

inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorLaunchFailure: return ecq_emulated::device::only().failure();
    default: return "an error";
  }
}
inline cudaError_t cudaGetLastError() { return ecq_emulated::device::only().last(); }
inline cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return ecq_emulated::device::only().synchronize(); }
inline cudaError_t cudaDeviceReset() { return ecq_emulated::device::only().reset(), cudaSuccess; }
inline cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"an emulated device", ecq_emulated::device_heap::capacity, ecq_emulated::multiprocessors, 9, 0};
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = ecq_emulated::most_threads; break;
    case cudaDevAttrMultiProcessorCount: *value = ecq_emulated::multiprocessors; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(ecq_emulated::device::only().shared_of_block);
      break;
    default: return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

inline cudaError_t cudaMalloc(void** memory, std::size_t size) {
  *memory = nullptr;
  if (const auto error = ecq_emulated::device::only().refuse_in_capture(); error != cudaSuccess) return error;
  *memory = size == 0 ? nullptr : ecq_emulated::device_heap::only().allocate(size);
  return ecq_emulated::device::only().told(size != 0 && *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
inline cudaError_t cudaFree(void* memory) {
  if (const auto error = ecq_emulated::device::only().refuse_in_capture(); error != cudaSuccess) return error;
  const cudaError_t status = cudaDeviceSynchronize();
  if (memory == nullptr || ecq_emulated::device_heap::only().release(static_cast<std::byte*>(memory))) return status;
  return ecq_emulated::device::only().told(cudaErrorInvalidValue);
}

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind kind,
                                   cudaStream_t stream = nullptr) {
  const auto& heap = ecq_emulated::device_heap::only();
  const bool to_device = heap.holds(to, size);
  const bool from_device = heap.holds(from, size);
  const bool fits = kind == cudaMemcpyDefault ||
                    (to_device == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
                     from_device == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice));
  if (size != 0 && !fits) return ecq_emulated::device::only().told(cudaErrorInvalidValue);
  if (!to_device || !from_device) {
    if (const auto error = ecq_emulated::device::only().refuse_in_capture(); error != cudaSuccess) return error;
  }
  return ecq_emulated::device::only().enqueue(stream, [=] {
    if (size != 0) std::memcpy(to, from, size);
  });
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t size, cudaMemcpyKind kind) {
  const cudaError_t status = cudaMemcpyAsync(to, from, size, kind);
  return status == cudaSuccess ? cudaDeviceSynchronize() : status;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t size, cudaStream_t stream = nullptr) {
  if (size != 0 && !ecq_emulated::device_heap::only().holds(to, size)) {
    return ecq_emulated::device::only().told(cudaErrorInvalidValue);
  }
  return ecq_emulated::device::only().enqueue(stream, [=] {
    if (size != 0) std::memset(to, value, size);
  });
}
inline cudaError_t cudaMemset(void* to, int value, std::size_t size) { return cudaMemsetAsync(to, value, size); }

inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { return *stream = new ecq_emulated_stream, cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaDeviceSynchronize(); }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = new ecq_emulated_event, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const cudaError_t status = cudaDeviceSynchronize();
  return delete event, status;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
  return ecq_emulated::device::only().enqueue(stream, [=] { event->when = std::chrono::steady_clock::now(); });
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaDeviceSynchronize(); }
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->when - begin->when).count();
  return cudaSuccess;
}

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return ecq_emulated::device::only().begin_capture(stream);
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  return ecq_emulated::device::only().end_capture(graph);
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = new std::vector<std::function<void()>>(*graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return delete graph, cudaSuccess; }
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  for (const auto& work : *graph) {
    if (const cudaError_t status = ecq_emulated::device::only().enqueue(stream, work); status != cudaSuccess)
      return status;
  }
  return cudaSuccess;
}

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int value) {
  const auto bytes = static_cast<std::size_t>(value);
  if (value < 0 || bytes > ecq_emulated::device::only().shared_of_block) {
    return ecq_emulated::device::only().told(cudaErrorInvalidValue);
  }
  ecq_emulated::device::only().shared_of_kernel[reinterpret_cast<const void*>(kernel)] = bytes;
  return cudaSuccess;
}

/// One block of any kernel, so that grids which stay on a device take few blocks here.
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel*, int, std::size_t) {
  return *blocks = 1, cudaSuccess;
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...), "parameters travel as bytes");
  static_assert((sizeof(Parameters) + ... + 0) <= 4096, "a kernel has 4 KiB of parameters");
  auto& device = ecq_emulated::device::only();
  const auto asked = device.shared_of_kernel.find(reinterpret_cast<const void*>(kernel));
  const std::size_t most = asked == device.shared_of_kernel.end()
                               ? ecq_emulated::plain_shared_bytes
                               : (std::max)(ecq_emulated::plain_shared_bytes, asked->second);
  if (config->dynamicSmemBytes > (std::min)(most, device.shared_of_block)) return device.told(cudaErrorInvalidValue);
  const dim3& grid = config->gridDim;
  const dim3& block = config->blockDim;
  if (grid.x == 0 || grid.x > 0x7FFFFFFFU || grid.y != 1 || grid.z != 1 || block.x == 0 ||
      block.x > ecq_emulated::most_threads || block.y != 1 || block.z != 1 || config->numAttrs != 0) {
    return device.told(cudaErrorInvalidConfiguration);
  }
#if __has_builtin(__builtin_clear_padding)
  const auto check = [](auto parameter) {
    if constexpr (sizeof parameter >= 8) {
      __builtin_clear_padding(&parameter);
      for (std::size_t at = 0; at + 8 <= sizeof parameter; at += 8) {
        std::uint64_t word;
        std::memcpy(&word, reinterpret_cast<const std::byte*>(&parameter) + at, 8);
        if (ecq_emulated::device_heap::only().is_host_address(word)) {
          ecq_emulated::give_up("a parameter of a kernel points to the host's memory");
        }
      }
    }
  };
#endif
  struct call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> parameters;
  };
  const call made = {kernel, {std::forward<Arguments>(arguments)...}};
#if __has_builtin(__builtin_clear_padding)
  std::apply([&](const auto&... parameters) { (check(parameters), ...); }, made.parameters);
#endif
  return device.enqueue(config->stream, [&device, config = *config, made] {
    const auto body = [](void* context) {
      const auto& one = *static_cast<const call*>(context);
      std::apply(one.kernel, one.parameters);
    };
    device.run(config, body, const_cast<call*>(&made));
  });
}
