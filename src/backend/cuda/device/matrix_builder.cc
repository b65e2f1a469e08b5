#include "backend/cuda/device/matrix_builder.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "model/block_bytes.h"
#include "model/dequantize.h"
#include "model/fp8.h"

namespace pie::cuda {
namespace {

// The bytes that one thread sets to zero at a time.
constexpr uint64_t kFillBytes = uint64_t{4} << 20;

// The bits of a zero in each kind.
std::byte ZeroOf(WeightKind kind) {
  switch (kind) {
    case WeightKind::kInt8:
      return std::byte{0x80};
    case WeightKind::kInt4:
      return std::byte{0x88};
    default:  // the scales are zero, too
      return std::byte{0};
  }
}

// Rounds to the nearest F16, ties to even. Too large numbers become infinite.
uint16_t ToHalf(float x) {
  const auto half = static_cast<_Float16>(x);
  return std::bit_cast<uint16_t>(half);
}

}  // namespace

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

std::optional<WeightKind> KindFor(DType dtype) {
  switch (dtype) {
    case DType::kF8E4M3:
      return WeightKind::kFp8;
    case DType::kQ8_0:
      return WeightKind::kInt8;
    case DType::kQ4_0:
      return WeightKind::kInt4;
    case DType::kQ4_1:
    case DType::kQ4_K:
      return WeightKind::kInt4Min;
    case DType::kQ6_K:
      return WeightKind::kInt6;
    default:
      return std::nullopt;
  }
}

MatrixRoom::Memory MatrixRoom::Take(uint64_t bytes) {
  const auto largest = std::ranges::max_element(free_, {}, &Memory::capacity);
  if (largest != free_.end()) {
    Memory memory = std::move(*largest);
    free_.erase(largest);
    if (memory.capacity >= bytes) return memory;
  }
  return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
}

MatrixBuilder::MatrixBuilder(WeightKind kind, uint64_t rows, uint64_t columns, uint64_t matrices,
                             MatrixRoom* room)
    : kind_(kind), rows_(rows), columns_(columns), room_(room) {
  const uint64_t tiles = matrices * TilesOf(rows, columns);
  const uint64_t bytes =
      kind == WeightKind::kBf16 ? matrices * rows * columns * 2 : tiles * TileBytes(kind);
  memory_ = room == nullptr ? MatrixRoom().Take(bytes) : room->Take(bytes);
  data_ = {memory_.data.get(), bytes};
  ForAll((bytes + kFillBytes - 1) / kFillBytes, [&](uint64_t i) {
    const uint64_t first = i * kFillBytes;
    std::ranges::fill(data_.subspan(first, std::min(kFillBytes, bytes - first)), ZeroOf(kind));
  });
  if (kind != WeightKind::kBf16) scales_.resize(tiles * kTileRows * ScaleBytes(kind));
}

MatrixBuilder::~MatrixBuilder() {
  if (room_ != nullptr) room_->GiveBack(std::move(memory_));
}

std::byte* MatrixBuilder::TileAt(uint64_t row, uint64_t column) {
  const uint64_t tile =
      row / rows_ * TilesOf(rows_, columns_) + TileOf(row % rows_, column, columns_);
  return data_.data() + tile * TileBytes(kind_);
}

std::byte* MatrixBuilder::ScalesAt(uint64_t row, uint64_t column) {
  const uint64_t tile =
      row / rows_ * TilesOf(rows_, columns_) + TileOf(row % rows_, column, columns_);
  return scales_.data() + (tile * kTileRows + row % rows_ % kTileRows) * ScaleBytes(kind_);
}

// Overwrites a number's bits. Words belong to one row, so threads may write to
// different rows.
void MatrixBuilder::Store(uint64_t row, uint64_t column, uint32_t bits) {
  const PackedPlace place =
      PlaceOf(kind_, static_cast<uint32_t>(row % rows_), static_cast<uint32_t>(column));
  std::byte* const tile = TileAt(row, column);
  const auto put = [&](uint32_t byte, uint32_t bit, uint32_t mask, uint32_t value) {
    uint32_t word = 0;
    std::memcpy(&word, tile + byte, sizeof word);
    word = (word & ~(mask << bit)) | value << bit;
    std::memcpy(tile + byte, &word, sizeof word);
  };
  const uint32_t mask = BitsOf(kind_) == 8 ? 0xFFU : 0xFU;
  put(place.byte, place.bit, mask, bits & mask);
  if (kind_ == WeightKind::kInt6) put(place.high_byte, place.high_bit, 3, bits >> 4);
}

void MatrixBuilder::StoreHalf(uint64_t row, uint64_t column, uint32_t index, float value) {
  const uint16_t half = ToHalf(value);
  std::memcpy(ScalesAt(row, column) + index * sizeof half, &half, sizeof half);
}

// Scales make the largest number of each span 448.
void MatrixBuilder::PutRow(std::span<const float> numbers, uint64_t row, const Place& column) {
  if (kind_ == WeightKind::kBf16) {
    std::byte* const to = data_.data() + row * columns_ * 2;
    for (uint64_t j = 0; j < numbers.size(); ++j) {
      const uint16_t number = FloatToBFloat(numbers[j]);
      std::memcpy(to + (column ? column(j) : j) * 2, &number, 2);
    }
    return;
  }
  std::vector<float> largest(SpansOf(columns_));
  for (uint64_t j = 0; j < numbers.size(); ++j) {
    float& most = largest[(column ? column(j) : j) / kSpan];
    most = std::max(most, std::abs(numbers[j]));
  }
  for (uint64_t span = 0; span < largest.size(); ++span) {
    largest[span] /= kLargestE4m3;
    std::memcpy(ScalesAt(row, span * kSpan), &largest[span], sizeof(float));
  }
  for (uint64_t j = 0; j < numbers.size(); ++j) {
    const uint64_t at = column ? column(j) : j;
    const float scale = largest[at / kSpan];
    Store(row, at, FloatToE4m3(scale > 0 ? numbers[j] / scale : 0));
  }
}

Status MatrixBuilder::PutFp8(std::span<const std::byte> data, const Fp8Scales& scales,
                             uint64_t from, uint64_t row, const Place& column) {
  for (uint64_t span = 0; span < SpansOf(columns_); ++span) {
    const uint64_t first = std::min<uint64_t>(span * kSpan, data.size() - 1);
    const float scale = scales.Of(from, first);
    std::memcpy(ScalesAt(row, span * kSpan), &scale, sizeof scale);
  }
  for (uint64_t j = 0; j < data.size(); ++j) {
    const auto bits = static_cast<uint32_t>(data[j]);
    if ((bits & 0x7FU) == 0x7FU) {
      return Fail(Code::kInvalid, "number {} of row {} is NaN; is the file damaged?", j, from);
    }
    Store(row, column ? column(j) : j, bits);
  }
  return {};
}

// The fields of the blocks are described in model/dequantize.cc.
Status MatrixBuilder::PutBlocks(DType dtype, std::span<const std::byte> data, uint64_t row) {
  const DTypeInfo& info = InfoOf(dtype);
  const auto* in = reinterpret_cast<BlockBytes>(data.data());
  bool finite = true;
  const auto half = [&](uint64_t column, uint32_t index, float value) {
    finite = finite && std::abs(value) < 65520;  // larger numbers round to infinity in F16
    StoreHalf(row, column, index, value);
  };
  const uint64_t blocks = data.size() / info.block_bytes;
  for (uint64_t block = 0; block < blocks; ++block, in += info.block_bytes) {
    const uint64_t first = block * info.block_elements;
    const auto group_at = static_cast<uint32_t>(first % kSpan / 32);
    switch (dtype) {
      case DType::kQ8_0:
        half(first, group_at, Half(in));
        for (uint32_t i = 0; i < 32; ++i) Store(row, first + i, in[2 + i] ^ 0x80U);
        break;
      case DType::kQ4_0:
      case DType::kQ4_1: {
        const bool minimum = dtype == DType::kQ4_1;
        half(first, minimum ? 2 * group_at : group_at, Half(in));
        if (minimum) half(first, 2 * group_at + 1, Half(in + 2));
        const BlockBytes nibbles = in + (minimum ? 4 : 2);
        for (uint32_t i = 0; i < 16; ++i) {
          Store(row, first + i, nibbles[i] & 0xFU);
          Store(row, first + 16 + i, nibbles[i] >> 4);
        }
        break;
      }
      case DType::kQ4_K:
        for (uint32_t g = 0; g < 8; ++g) {
          const BlockBytes six = in + 4;
          const uint32_t scale = g < 4 ? six[g] & 63U : (six[g + 4] & 0xFU) | six[g - 4] >> 6 << 4;
          const uint32_t least = g < 4 ? six[g + 4] & 63U : six[g + 4] >> 4U | six[g] >> 6 << 4;
          const uint64_t at = first + uint64_t{g} * 32;
          half(at, 2 * (g % 4), Half(in) * static_cast<float>(scale));
          half(at, 2 * (g % 4) + 1, -Half(in + 2) * static_cast<float>(least));
          for (uint32_t i = 0; i < 32; ++i) {
            Store(row, at + i, in[16 + g / 2 * 32 + i] >> (g % 2 * 4) & 0xFU);
          }
        }
        break;
      case DType::kQ6_K:
        for (uint32_t g = 0; g < 16; ++g) {
          const auto scale = static_cast<float>(static_cast<int8_t>(in[192 + g]));
          half(first + uint64_t{g} * 16, g % 8, Half(in + 208) * scale);
        }
        for (uint32_t i = 0; i < 256; ++i) {
          const uint32_t low = in[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 0xFU;
          const uint32_t high = in[128 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3U;
          Store(row, first + i, low | high << 4);
        }
        break;
      default:
        return Fail(Code::kInternal, "{} is not kept packed", info.name);
    }
  }
  if (!finite) {
    return Fail(Code::kInvalid, "a scale of {} exceeds the range of F16; is the file damaged?",
                info.name);
  }
  return {};
}

Status MatrixBuilder::Put(const Tensor& tensor, const Fp8Scales* scales, uint64_t first,
                          uint64_t count, const Place& row, const Place& column) {
  const uint64_t length = tensor.shape.back();
  const uint64_t row_bytes = tensor.data.size() / (tensor.elements() / length);
  const bool packed = kind_ != WeightKind::kBf16 && KindFor(tensor.dtype) == kind_;
  std::mutex mutex;
  std::optional<Error> error;
  const auto put = [&](uint64_t i, std::vector<float>& floats) -> Status {
    const auto data = tensor.data.subspan((first + i) * row_bytes, row_bytes);
    if (tensor.dtype == DType::kF8E4M3 && packed && scales != nullptr) {
      return PutFp8(data, *scales, first + i, row(i), column);
    }
    if (packed && !column) return PutBlocks(tensor.dtype, data, row(i));
    if (tensor.dtype == DType::kBF16 && kind_ == WeightKind::kBf16 && !column) {
      std::memcpy(data_.data() + row(i) * columns_ * 2, data.data(), row_bytes);
      return {};
    }
    PIE_RETURN_IF_ERROR(Dequantize(tensor.dtype, data, floats));
    PutRow(floats, row(i), column);
    return {};
  };
  // A task has enough rows that taking it costs little.
  const uint64_t task = std::max<uint64_t>(1, (1U << 16) / length);
  ForAll((count + task - 1) / task, [&](uint64_t t) {
    std::vector<float> floats(length);
    for (uint64_t i = t * task; i < std::min(count, (t + 1) * task); ++i) {
      if (const Status status = put(i, floats); !status) {
        const std::lock_guard lock(mutex);
        error = status.error();
        return;
      }
    }
  });
  if (error) return std::unexpected(*error);
  return {};
}

void MatrixBuilder::PutFloats(std::span<const float> numbers, uint64_t count, const Place& row) {
  const uint64_t length = numbers.size() / count;
  for (uint64_t i = 0; i < count; ++i) PutRow(numbers.subspan(i * length, length), row(i), {});
}

}  // namespace pie::cuda
