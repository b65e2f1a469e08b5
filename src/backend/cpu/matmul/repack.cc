#include "backend/cpu/matmul/repack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "backend/cpu/machine/simd.h"
#include "backend/cpu/quant/quant_groups.h"
#include "backend/cpu/quant/quantize.h"
#include "model/dequantize.h"
#include "model/half.h"

namespace pie::cpu {
namespace {

// Block functions store one row's block at `in` in lane `lane` of the panel block at `out`.
void PackQ4(const std::byte* in, std::byte* out, uint32_t lane, bool has_min) {
  std::memcpy(out + 256 + 2 * lane, in, 2);
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

// Converts weights [elements] of any type that can be dequantised to F16.
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

// The format that a type is packed as.
PanelFormat FormatFor(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return PanelFormat::kU4;
    case DType::kQ4_1:
    case DType::kQ4_K:
      return PanelFormat::kU4Min;
    case DType::kQ2_K:
    case DType::kQ3_K:
      return PanelFormat::kU4Min2;
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K:
      return PanelFormat::kU5Min;
    case DType::kQ6_K:
      return PanelFormat::kU6Two;
    case DType::kQ8_0:
      return PanelFormat::kU8;
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
      return PanelFormat::kIq4;
    case DType::kMXFP4:
      return PanelFormat::kE2m1;
    case DType::kBF16:
      return PanelFormat::kBF16;
    case DType::kF32:
      return PanelFormat::kF32;
    default:
      return PanelFormat::kF16;
  }
}

// True if F16 can hold all scales of MXFP4 blocks, which are powers of two from 2^-128 up.
bool ScalesFitHalf(std::span<const std::byte> blocks) {
  for (size_t at = 0; at < blocks.size(); at += InfoOf(DType::kMXFP4).block_bytes) {
    const auto exponent = static_cast<int>(blocks[at]) - 128;
    if (exponent < -24 || exponent > 15) return false;
  }
  return true;
}

void StoreHalf(float value, std::byte* to) {
  const uint16_t half = FloatToHalf(value);
  std::memcpy(to, &half, sizeof half);
}

// Packs 32 numbers of one row: the groups `first` and first + 1.
void PackPair(const PanelLayout& layout, const QuantGroups& groups, uint32_t first, std::byte* out,
              uint32_t lane) {
  const uint8_t* const q = groups.q + size_t{first} * 16;
  for (uint32_t i = 0; i < 16; ++i) {
    out[64 * (i / 4) + 4 * lane + i % 4] =
        static_cast<std::byte>((q[i] & 0xF) | (q[16 + i] & 0xF) << 4);
  }
  for (uint32_t i = 0; i < 32 && layout.bits > 4; ++i) {
    const uint32_t vector = i % 16 / 4 * 2 + i / 16;
    const uint32_t place = 4 * lane + i % 4;
    std::byte* const high = out + layout.high_at();
    if (layout.bits == 5) {
      high[8 * vector + place / 8] |= static_cast<std::byte>((q[i] >> 4) << (place % 8));
    } else {
      high[64 * (vector / 4) + place] |= static_cast<std::byte>((q[i] >> 4) << (vector % 4 * 2));
    }
  }
  for (uint32_t i = 0; i < layout.scales; ++i) {
    StoreHalf(groups.scale[first + i], out + layout.scale_at() + 32 * i + 2 * lane);
    if (!layout.has_min || layout.whole_min()) continue;
    StoreHalf(groups.min[first + i], out + layout.min_at() + 32 * i + 2 * lane);
  }
}

}  // namespace

// Calls pack(block of the file, block of the panel, lane) for every row and block.
template <class PackBlock>
void PackedMatrix::PackBlocks(const std::byte* data, size_t in_bytes, PackBlock pack) {
  const PanelLayout layout = LayoutOf(format_);
  const uint32_t blocks = columns_ / layout.columns();
  for (uint32_t row = 0; row < rows_; ++row) {
    std::byte* out = memory_ + row / kPanelRows * panel_bytes_;
    const std::byte* in = data + row * blocks * in_bytes;
    for (uint32_t b = 0; b < blocks; ++b, in += in_bytes, out += layout.bytes()) {
      pack(in, out, row % kPanelRows);
    }
  }
}

// Packs formats that store pairs of columns, two bytes each.
void PackedMatrix::PackPairs(const std::byte* data) {
  for (uint32_t row = 0; row < rows_; ++row, data += size_t{columns_} * 2) {
    std::byte* const out = memory_ + row / kPanelRows * panel_bytes_ + row % kPanelRows * 4;
    for (uint32_t column = 0; column < columns_; column += 2) {
      std::memcpy(out + column / 2 * size_t{64}, data + size_t{column} * 2,
                  column + 1 < columns_ ? 4 : 2);
    }
  }
}

void PackedMatrix::PackGroups(DType dtype, const std::byte* data) {
  const PanelLayout layout = LayoutOf(format_);
  const DTypeInfo& info = InfoOf(dtype);
  QuantGroups groups;
  std::vector<float> minima;
  for (uint32_t row = 0; row < rows_; ++row) {
    std::byte* out = memory_ + row / kPanelRows * panel_bytes_;
    minima.clear();
    for (uint32_t at = 0; at < columns_; at += info.block_elements, data += info.block_bytes) {
      ReadGroups(dtype, data, groups);
      for (uint32_t group = 0; group < info.block_elements / 16; group += 2) {
        PackPair(layout, groups, group, out, row % kPanelRows);
        minima.push_back(groups.min[group]);
        out += layout.bytes();
      }
    }
    if (layout.whole_min()) PackMinima(row, minima);
  }
}

// Packs minima [blocks]. If one is not finite, all minima of the row become NaN.
void PackedMatrix::PackMinima(uint32_t row, std::span<const float> minima) {
  const PanelLayout layout = LayoutOf(format_);
  const auto blocks = static_cast<uint32_t>(minima.size());
  const uint32_t lane = row % kPanelRows;
  std::byte* const panel = memory_ + row / kPanelRows * panel_bytes_;
  float largest = 0;
  for (const float min : minima) {
    if (!std::isfinite(min)) largest = std::numeric_limits<float>::quiet_NaN();
    if (std::abs(min) > largest) largest = std::abs(min);
  }
  const float unit = largest / static_cast<float>(WholeLimit(blocks));
  std::memcpy(panel + layout.units_at(blocks) + 4 * lane, &unit, sizeof unit);
  for (uint32_t b = 0; b < blocks && unit > 0; ++b) {
    const auto multiple = static_cast<int16_t>(std::lrint(minima[b] / unit));
    std::memcpy(panel + layout.minima_at(blocks) + 64 * (b / 2) + 4 * lane + 2 * (b % 2), &multiple,
                sizeof multiple);
  }
}

Result<PackedMatrix> PackedMatrix::Pack(DType dtype, std::span<const std::byte> data, uint32_t rows,
                                        uint32_t columns, Arena& arena) {
  const uint64_t shape[] = {rows, columns};
  if (PIE_TRY(TensorBytes(dtype, shape)) != data.size()) {
    return Fail(Code::kInvalid, "a {} matrix of {} × {} cannot have {} bytes", NameOf(dtype), rows,
                columns, data.size());
  }
  PackedMatrix packed;
  packed.format_ = FormatFor(dtype);
  packed.rows_ = rows;
  packed.columns_ = columns;
  if (dtype == DType::kMXFP4 && !ScalesFitHalf(data)) packed.format_ = PanelFormat::kF16;
  std::vector<uint16_t> halves;
  if (packed.format_ == PanelFormat::kF16 && dtype != DType::kF16) {
    halves = PIE_TRY(ToHalf(dtype, data, static_cast<size_t>(rows) * columns));
    data = std::as_bytes(std::span(halves));
  }

  const PanelLayout layout = LayoutOf(packed.format_);
  packed.panel_bytes_ = layout.panel_bytes(layout.blocks(columns));
  packed.memory_ = PIE_TRY(arena.Allocate(packed.bytes()));

  using In = const std::byte*;
  using Out = std::byte*;
  const size_t in_bytes = layout.quantized ? InfoOf(dtype).block_bytes : layout.float_bytes;
  if (packed.format_ == PanelFormat::kF32) {
    packed.PackBlocks(data.data(), in_bytes,
                      [](In in, Out out, uint32_t l) { std::memcpy(out + 4 * l, in, 4); });
  } else if (layout.paired) {
    packed.PackPairs(data.data());
  } else if (!layout.quantized) {
    packed.PackBlocks(data.data(), in_bytes,
                      [](In in, Out out, uint32_t l) { std::memcpy(out + 2 * l, in, 2); });
  } else if (dtype == DType::kQ4_0) {
    packed.PackBlocks(data.data(), in_bytes,
                      [](In in, Out out, uint32_t l) { PackQ4(in, out, l, false); });
  } else if (dtype == DType::kQ4_1) {
    packed.PackBlocks(data.data(), in_bytes,
                      [](In in, Out out, uint32_t l) { PackQ4(in, out, l, true); });
    std::vector<float> minima(columns / kQuantBlock);
    for (uint32_t row = 0; row < rows; ++row) {
      const std::byte* const from = data.data() + row * minima.size() * in_bytes;
      for (size_t b = 0; b < minima.size(); ++b) minima[b] = Half(from + b * in_bytes + 2);
      packed.PackMinima(row, minima);
    }
  } else if (dtype == DType::kQ8_0) {
    packed.PackBlocks(data.data(), in_bytes, PackQ8);
  } else {
    packed.PackGroups(dtype, data.data());
  }
  return packed;
}

void PackedMatrix::UnpackRow(uint32_t row, std::span<float> out) const {
  PIE_CHECK(row < rows_ && out.size() == columns_);
  const uint32_t columns = LayoutOf(format_).columns();
  const uint32_t whole = columns_ / columns * columns;
  for (uint32_t at = 0; at < whole; at += columns) UnpackBlock(row, at / columns, &out[at]);
  if (whole < columns_) out[whole] = Weight(row, whole);  // an odd last column
}

float PackedMatrix::Weight(uint32_t row, uint32_t column) const {
  PIE_CHECK(row < rows_ && column < columns_);
  const uint32_t columns = LayoutOf(format_).columns();
  float block[kQuantBlock];
  UnpackBlock(row, column / columns, block);
  return block[column % columns];
}

int QuantAt(const PanelLayout& layout, const std::byte* block, uint32_t lane, uint32_t column) {
  const uint32_t i = layout.nibbles() ? column % 16 : column;
  const uint32_t place = 4 * lane + i % 4;
  const auto byte = static_cast<uint8_t>(block[64 * (i / 4) + place]);
  if (!layout.nibbles()) return byte;
  int q = column < 16 ? byte & 0xF : byte >> 4;
  if (layout.stepped) return (*layout.steps)[q];
  const uint32_t vector = i / 4 * 2 + column / 16;
  const std::byte* const high = block + layout.high_at();
  if (layout.bits == 5)
    q |= (static_cast<int>(high[8 * vector + place / 8]) >> (place % 8) & 1) << 4;
  if (layout.bits == 6) {
    q |= (static_cast<int>(high[64 * (vector / 4) + place]) >> (vector % 4 * 2) & 3) << 4;
  }
  return q;
}

float UnitAt(const PanelLayout& layout, const std::byte* panel, uint32_t blocks, uint32_t lane) {
  float unit;
  std::memcpy(&unit, panel + layout.units_at(blocks) + 4 * lane, sizeof unit);
  return unit;
}

int MultipleAt(const PanelLayout& layout, const std::byte* panel, uint32_t blocks, uint32_t block,
               uint32_t lane) {
  int16_t multiple;
  std::memcpy(&multiple,
              panel + layout.minima_at(blocks) + 64 * (block / 2) + 4 * lane + 2 * (block % 2),
              sizeof multiple);
  return multiple;
}

void PackedMatrix::UnpackBlock(uint32_t row, uint32_t index, float* out) const {
  const PanelLayout layout = LayoutOf(format_);
  const uint32_t lane = row % kPanelRows;
  const std::byte* const panel = Panel(row / kPanelRows);
  const uint32_t blocks = columns_ / layout.columns();
  const std::byte* const in = panel + size_t{index} * layout.bytes();
  if (format_ == PanelFormat::kF32) {
    std::memcpy(out, in + 4 * lane, 4);
    return;
  }
  if (layout.paired) {
    uint16_t bits[2];
    std::memcpy(bits, in + 4 * lane, sizeof bits);
    out[0] = BFloatToFloat(bits[0]);
    out[1] = BFloatToFloat(bits[1]);
    return;
  }
  if (!layout.quantized) {
    *out = Half(in + 2 * lane);
    return;
  }
  for (uint32_t half = 0; half < 2; ++half) {
    const uint32_t at = (layout.scales == 2 ? 32 * half : 0) + 2 * lane;
    const float scale = Half(in + layout.scale_at() + at);
    float min = 0;
    if (layout.whole_min()) {
      min = UnitAt(layout, panel, blocks, lane) *
            static_cast<float>(MultipleAt(layout, panel, blocks, index, lane));
    } else if (layout.has_min) {
      min = Half(in + layout.min_at() + at);
    }
    for (uint32_t i = 16 * half; i < 16 * half + 16; ++i) {
      out[i] = scale * static_cast<float>(QuantAt(layout, in, lane, i) - layout.offset) + min;
    }
  }
}

}  // namespace pie::cpu
