// Shared by the tests of the kernels: arrays on the device, and the oracles' arithmetic.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/cuda/kernels/runtime.h"
#include "base/random.h"

namespace pie::cuda {

// A test suite that is skipped on machines without a GPU.
class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (ListDevices(&why).empty()) GTEST_SKIP() << "there is no CUDA device: " << why;
    ASSERT_EQ(OpenDevice(0), "");
    stream_ = MakeStream();
  }
  void TearDown() override {
    if (stream_ == nullptr) return;
    Synchronize(stream_);
    EXPECT_EQ(TakeError(), "");
    DestroyStream(stream_);
  }

  Stream stream_ = nullptr;
};

template <class T>
class DeviceArray {
 public:
  DeviceArray(const std::vector<T>& values, Stream stream) : size_(values.size()), stream_(stream) {
    data_ = static_cast<T*>(Allocate(size_ * sizeof(T) + 16));
    EXPECT_NE(data_, nullptr);
    CopyIn(data_, values.data(), size_ * sizeof(T), stream_);
    Synchronize(stream_);
  }
  ~DeviceArray() { Free(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    CopyOut(values.data(), data_, size_ * sizeof(T), stream_);
    Synchronize(stream_);
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
  Stream stream_;
};

inline uint16_t Rounded(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}
inline float Float(uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<uint32_t>(bfloat) << 16);
}

inline std::vector<float> RandomFloats(size_t count, uint64_t seed, float range = 1) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = (CounterRng{seed}.Float(i) * 2 - 1) * range;
  return x;
}
inline std::vector<uint16_t> RandomBFloats(size_t count, uint64_t seed, float range = 1) {
  std::vector<uint16_t> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = Rounded((CounterRng{seed}.Float(i) * 2 - 1) * range);
  return x;
}

// ‖a − b‖ / ‖b‖; NaN stays NaN.
inline double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / norm);
}

// The seconds that one call of `run` keeps the device busy: the mean of `times` calls, which are
// replayed as one graph after a first run that fills the caches. NaN if they cannot be captured.
template <class Run>
double SecondsOf(const Run& run, int times, Stream stream) {
  run();
  Synchronize(stream);
  BeginCapture(stream);
  for (int i = 0; i < times; ++i) run();
  const Graph graph = EndCapture(stream);
  EXPECT_NE(graph, nullptr);
  if (graph == nullptr) return NAN;
  RunGraph(graph, stream);
  const Event begin = MakeEvent();
  const Event end = MakeEvent();
  RecordEvent(begin, stream);
  RunGraph(graph, stream);
  RecordEvent(end, stream);
  const double seconds = MillisecondsBetween(begin, end) / 1e3 / times;
  DestroyGraph(graph);
  DestroyEvent(begin);
  DestroyEvent(end);
  return seconds;
}

// y = x × Wᵀ, [rows, n], summed in double. `number` gives the value of an element of W.
template <class W, class Number>
std::vector<float> ProductOf(const std::vector<W>& w, Number number, const std::vector<uint16_t>& x,
                             uint32_t n, uint32_t k, uint32_t rows) {
  std::vector<float> y(size_t{rows} * n);
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t i = 0; i < n; ++i) {
      double sum = 0;
      for (uint32_t j = 0; j < k; ++j) {
        sum += double{number(w[size_t{i} * k + j])} * Float(x[size_t{r} * k + j]);
      }
      y[size_t{r} * n + i] = static_cast<float>(sum);
    }
  }
  return y;
}

}  // namespace pie::cuda
