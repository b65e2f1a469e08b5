#include "backend/cpu/repack.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cpu/quantize.h"
#include "backend/cpu/simd.h"
#include "model/dequantize.h"
#include "model/half.h"

namespace pie::cpu {
namespace {

// Block functions put one row's block at `in` into lane `lane` of the panel block at `out`.
void PackQ4(const std::byte* in, std::byte* out, uint32_t lane, bool has_min) {
  std::byte* const scales = out + 256;
  std::memcpy(scales + 2 * lane, in, 2);
  if (has_min) std::memcpy(scales + 32 + 2 * lane, in + 2, 2);
  const std::byte* const nibbles = in + (has_min ? 4 : 2);
  for (uint32_t g = 0; g < 4; ++g) std::memcpy(out + 64 * g + 4 * lane, nibbles + 4 * g, 4);
}

void PackQ8(const std::byte* in, std::byte* out, uint32_t lane) {
  std::memcpy(out + 512 + 2 * lane, in, 2);
  for (uint32_t i = 0; i < 32; ++i) {
    out[64 * (i / 4) + 4 * lane + i % 4] = in[2 + i] ^ std::byte{0x80};
  }
}

float Half(const std::byte* in) {
  uint16_t half;
  std::memcpy(&half, in, 2);
  return HalfToFloat(half);
}

// Weights [elements] of any type that can be dequantised → F16.
Result<std::vector<uint16_t>> ToHalf(DType dtype, std::span<const std::byte> data,
                                     size_t elements) {
  std::vector<uint16_t> halves(elements);
  const DTypeInfo& info = InfoOf(dtype);
  const size_t step = info.block_elements * size_t{64};
  std::vector<float> floats(step);
  for (size_t at = 0; at < elements; at += step) {
    const size_t count = std::min(step, elements - at);
    const std::span<float> out(floats.data(), count);
    PIE_RETURN_IF_ERROR(Dequantize(dtype,
                                   data.subspan(at / info.block_elements * info.block_bytes,
                                                count / info.block_elements * info.block_bytes),
                                   out));
    std::ranges::transform(out, halves.begin() + static_cast<ptrdiff_t>(at), FloatToHalf);
  }
  return halves;
}

}  // namespace

PanelBlock PanelBlockOf(DType packed) {
  switch (packed) {
    case DType::kQ4_0:
      return {256 + 32, 32};
    case DType::kQ4_1:
      return {256 + 64, 32};
    case DType::kQ8_0:
      return {512 + 32, 32};
    case DType::kF32:
      return {64, 1};
    default:  // F16, BF16
      return {32, 1};
  }
}

// For every row and block: pack(block of the file, block of the panel, lane).
template <class PackBlock>
void PackedMatrix::PackBlocks(const std::byte* data, PackBlock pack) {
  const PanelBlock block = PanelBlockOf(dtype_);
  const size_t in_bytes = InfoOf(dtype_).block_bytes;
  const uint32_t blocks = columns_ / block.columns;
  for (uint32_t row = 0; row < rows_; ++row) {
    std::byte* out = memory_ + row / kPanelRows * panel_bytes_;
    const std::byte* in = data + row * blocks * in_bytes;
    for (uint32_t b = 0; b < blocks; ++b, in += in_bytes, out += block.bytes) {
      pack(in, out, row % kPanelRows);
    }
  }
}

Result<PackedMatrix> PackedMatrix::Pack(DType dtype, std::span<const std::byte> data, uint32_t rows,
                                        uint32_t columns, Arena& arena) {
  const uint64_t shape[] = {rows, columns};
  if (PIE_TRY(TensorBytes(dtype, shape)) != data.size()) {
    return Fail(Code::kInvalid, "a {} matrix of {} × {} does not have {} bytes", NameOf(dtype),
                rows, columns, data.size());
  }
  PackedMatrix packed;
  packed.dtype_ = dtype;
  packed.rows_ = rows;
  packed.columns_ = columns;
  std::vector<uint16_t> halves;
  if (!packed.quantized() && dtype != DType::kF32 && dtype != DType::kF16 &&
      dtype != DType::kBF16) {
    halves = PIE_TRY(ToHalf(dtype, data, static_cast<size_t>(rows) * columns));
    data = std::as_bytes(std::span(halves));
    packed.dtype_ = DType::kF16;
  }

  const PanelBlock block = PanelBlockOf(packed.dtype_);
  packed.panel_bytes_ = (static_cast<size_t>(columns / block.columns) * block.bytes + 63) / 64 * 64;
  packed.memory_ = PIE_TRY(arena.Allocate(packed.bytes()));

  using In = const std::byte*;
  using Out = std::byte*;
  switch (packed.dtype_) {
    case DType::kQ4_0:
      packed.PackBlocks(data.data(), [](In in, Out out, uint32_t l) { PackQ4(in, out, l, false); });
      break;
    case DType::kQ4_1:
      packed.PackBlocks(data.data(), [](In in, Out out, uint32_t l) { PackQ4(in, out, l, true); });
      break;
    case DType::kQ8_0:
      packed.PackBlocks(data.data(), PackQ8);
      break;
    case DType::kF32:
      packed.PackBlocks(data.data(),
                        [](In in, Out out, uint32_t l) { std::memcpy(out + 4 * l, in, 4); });
      break;
    default:
      packed.PackBlocks(data.data(),
                        [](In in, Out out, uint32_t l) { std::memcpy(out + 2 * l, in, 2); });
  }
  return packed;
}

void PackedMatrix::UnpackRow(uint32_t row, std::span<float> out) const {
  PIE_CHECK(row < rows_ && out.size() == columns_);
  const uint32_t columns = PanelBlockOf(dtype_).columns;
  for (uint32_t at = 0; at < columns_; at += columns) {
    UnpackBlock(row, at / columns, out.subspan(at, columns).data());
  }
}

float PackedMatrix::Weight(uint32_t row, uint32_t column) const {
  PIE_CHECK(row < rows_ && column < columns_);
  const uint32_t columns = PanelBlockOf(dtype_).columns;
  float block[kQuantBlock];
  UnpackBlock(row, column / columns, block);
  return block[column % columns];
}

void PackedMatrix::UnpackBlock(uint32_t row, uint32_t index, float* out) const {
  const uint32_t lane = row % kPanelRows;
  const std::byte* const in = Panel(row / kPanelRows) + size_t{index} * PanelBlockOf(dtype_).bytes;
  switch (dtype_) {
    case DType::kQ4_0:
    case DType::kQ4_1: {
      const float d = Half(in + 256 + 2 * lane);
      const float m = dtype_ == DType::kQ4_1 ? Half(in + 288 + 2 * lane) : -8 * d;
      for (uint32_t i = 0; i < 16; ++i) {
        const auto byte = static_cast<uint8_t>(in[64 * (i / 4) + 4 * lane + i % 4]);
        out[i] = d * static_cast<float>(byte & 0xF) + m;
        out[16 + i] = d * static_cast<float>(byte >> 4) + m;
      }
      break;
    }
    case DType::kQ8_0: {
      const float d = Half(in + 512 + 2 * lane);
      for (uint32_t i = 0; i < 32; ++i) {
        const auto byte = static_cast<uint8_t>(in[64 * (i / 4) + 4 * lane + i % 4]);
        out[i] = d * static_cast<float>(byte - 128);
      }
      break;
    }
    case DType::kF32:
      std::memcpy(out, in + 4 * lane, 4);
      break;
    case DType::kBF16: {
      uint16_t bits;
      std::memcpy(&bits, in + 2 * lane, 2);
      *out = BFloatToFloat(bits);
      break;
    }
    default:
      *out = Half(in + 2 * lane);
  }
}

}  // namespace pie::cpu
