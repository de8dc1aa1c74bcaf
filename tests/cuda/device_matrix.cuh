#pragma once
// Matrices in device memory for tests.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/device_memory.cuh"
#include "ecq/cuda/quantize.cuh"
#include "ecq/format/weights_view.hpp"

namespace ecq_test {

template <class Element>
inline void copy_to_device(const device_memory& to, const std::vector<Element>& from) {
  ASSERT_EQ(cudaMemcpy(to.data(), from.data(), from.size() * sizeof(Element), cudaMemcpyHostToDevice), cudaSuccess);
}

/// A matrix on the host and on the device.
class device_matrix {
 public:
  template <class Element>
  static device_matrix of(const std::vector<float>& weights, std::size_t rows, std::size_t padding = 0) {
    device_matrix made;
    const std::size_t columns = weights.size() / rows;
    const std::size_t stride = columns + padding;
    std::vector<Element> elements((rows - 1) * stride + columns, Element(1e4F));
    for (std::size_t i = 0; i < weights.size(); ++i) elements[i / columns * stride + i % columns] = Element(weights[i]);
    made.bytes_.resize(elements.size() * sizeof(Element));
    if (!elements.empty()) std::memcpy(made.bytes_.data(), elements.data(), made.bytes_.size());
    made.memory_ = std::make_unique<device_memory>(made.bytes_.size());
    copy_to_device(*made.memory_, made.bytes_);
    made.weights_ = {made.memory_->data(), ecq::dtype_of<Element>, rows, columns, stride};
    return made;
  }

  const ecq::device_weights& on_device() const { return weights_; }
  ecq::weights_view on_host() const {
    return {weights_.type, bytes_.data(), weights_.rows, weights_.columns,
            static_cast<std::ptrdiff_t>(weights_.row_stride)};
  }

 private:
  std::vector<std::byte> bytes_;
  std::unique_ptr<device_memory> memory_;
  ecq::device_weights weights_;
};

}  // namespace ecq_test
