#include "backend/cuda/device/matrix_builder.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "model/dequantize.h"

namespace pie::cuda {

uint16_t ToBFloat(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

void ForAll(uint64_t count, const std::function<void(uint64_t)>& f) {
  const uint64_t threads =
      std::min<uint64_t>(count, std::clamp(std::thread::hardware_concurrency(), 1U, 64U));
  if (threads <= 1) {
    for (uint64_t i = 0; i < count; ++i) f(i);
    return;
  }
  std::atomic<uint64_t> next = 0;
  std::vector<std::jthread> pool;
  for (uint64_t t = 0; t < threads; ++t) {
    pool.emplace_back([&] {
      for (uint64_t i = next++; i < count; i = next++) f(i);
    });
  }
}

MatrixBuilder::MatrixBuilder(uint64_t rows, uint64_t columns)
    : columns_(columns), numbers_(rows * columns) {}

Status MatrixBuilder::Put(const Tensor& tensor, uint64_t first, uint64_t count, const Place& row,
                          const Place& column) {
  const uint64_t length = tensor.shape.back();
  const uint64_t row_bytes = tensor.data.size() / (tensor.elements() / length);
  std::mutex mutex;
  std::optional<Error> error;
  // A task has enough rows that taking it costs little.
  const uint64_t task = std::max<uint64_t>(1, (1U << 16) / length);
  ForAll((count + task - 1) / task, [&](uint64_t t) {
    std::vector<float> floats(length);
    for (uint64_t i = t * task; i < std::min(count, (t + 1) * task); ++i) {
      uint16_t* const to = &numbers_[row(i) * columns_];
      const auto data = tensor.data.subspan((first + i) * row_bytes, row_bytes);
      if (tensor.dtype == DType::kBF16 && !column) {
        std::memcpy(to, data.data(), row_bytes);
        continue;
      }
      if (const Status status = Dequantize(tensor.dtype, data, floats); !status) {
        const std::lock_guard lock(mutex);
        error = status.error();
        return;
      }
      for (uint64_t j = 0; j < length; ++j) to[column ? column(j) : j] = ToBFloat(floats[j]);
    }
  });
  if (error) return std::unexpected(*error);
  return {};
}

void MatrixBuilder::PutFloats(std::span<const float> numbers, uint64_t count, const Place& row) {
  const uint64_t length = numbers.size() / count;
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t* const to = &numbers_[row(i) * columns_];
    for (uint64_t j = 0; j < length; ++j) to[j] = ToBFloat(numbers[i * length + j]);
  }
}

}  // namespace pie::cuda
