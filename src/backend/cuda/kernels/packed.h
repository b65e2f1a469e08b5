// How weights are stored in the device's memory: as bfloat16 numbers, [n, k], or packed in 4 to 8
// bits with scales, as model files have them. A packed matrix is rearranged at load so that a warp
// reads its part of it by loads of 512 neighbouring bytes.
//
// A packed matrix is cut into tiles of 16 rows and 128 columns (a span), row of tiles by row of
// tiles; both sizes are padded with zeros. In a tile, a lane of a warp has two rows, lane / 4 and
// that + 8, and of each group of 32 columns the eight numbers that a tensor core's tile wants from
// it. Scales are in an array of their own: [tiles][16 rows], ScaleBytes each.
#pragma once

#include <cstdint>

namespace pie::cuda {

inline constexpr uint32_t kTileRows = 16;
inline constexpr uint32_t kSpan = 128;  // columns of a tile

enum class WeightKind : uint8_t {
  kBf16,
  kFp8,      // e4m3; one float scale a span
  kInt8,     // scale × (number - 128); scales of 32 columns, F16
  kInt4,     // scale × (number - 8); the same
  kInt4Min,  // scale × number + minimum, both F16, for 32 columns
  kInt6,     // scale × (number - 32); scales of 16 columns, F16
};

constexpr uint32_t BitsOf(WeightKind kind) {
  switch (kind) {
    case WeightKind::kBf16:
      return 16;
    case WeightKind::kFp8:
    case WeightKind::kInt8:
      return 8;
    case WeightKind::kInt4:
    case WeightKind::kInt4Min:
      return 4;
    case WeightKind::kInt6:
      return 6;
  }
  return 0;
}

// Of a row's numbers in a span.
constexpr uint32_t ScaleBytes(WeightKind kind) {
  switch (kind) {
    case WeightKind::kFp8:
      return 4;
    case WeightKind::kInt8:
    case WeightKind::kInt4:
      return 8;
    case WeightKind::kInt4Min:
    case WeightKind::kInt6:
      return 16;
    default:
      return 0;
  }
}
constexpr uint32_t TileBytes(WeightKind kind) {
  return kTileRows * kSpan * BitsOf(kind) / 8;
}
// 16-byte loads of a lane for a row of a tile. Six bits are four and, in 8 bytes after them, two.
constexpr uint32_t VectorsOf(WeightKind kind) {
  return BitsOf(kind) == 8 ? 2 : 1;
}
constexpr uint32_t HighBitsAt(WeightKind kind) {  // in a tile
  return VectorsOf(kind) * 1024;
}

constexpr uint64_t SpansOf(uint64_t columns) {
  return (columns + kSpan - 1) / kSpan;
}
constexpr uint64_t TilesOf(uint64_t rows, uint64_t columns) {
  return (rows + kTileRows - 1) / kTileRows * SpansOf(columns);
}
constexpr uint64_t TileOf(uint64_t row, uint64_t column, uint64_t columns) {
  return row / kTileRows * SpansOf(columns) + column / kSpan;
}

// Where the number of a row and column is in its tile.
struct PackedPlace {
  uint32_t byte;       // of the 32-bit word
  uint32_t bit;        // in that word: 8 bits, or the lower four
  uint32_t high_byte;  // the word with the upper two of six bits
  uint32_t high_bit;
};
constexpr PackedPlace PlaceOf(WeightKind kind, uint32_t row, uint32_t column) {
  const bool six = kind == WeightKind::kInt6;
  const uint32_t group = column % kSpan / 32;
  const uint32_t in_group = column % 32;
  // Scales of 16 columns belong to one tile of a tensor core, which has 4 numbers of each lane.
  const uint32_t quarter = six ? in_group % 16 / 4 : in_group / 8;
  const uint32_t number = six ? in_group / 16 * 4 + in_group % 4 : in_group % 8;
  const uint32_t half = row % kTileRows / 8;
  const uint32_t lane = row % 8 * 4 + quarter;
  if (BitsOf(kind) == 8) {
    // Bytes 0 and 2 are a pair of neighbours, and so are 1 and 3.
    const uint32_t place = number % 4;
    return {((group / 2 * 2 + half) * 32 + lane) * 16 + group % 2 * 8 + number / 4 * 4,
            (place == 1   ? 2
             : place == 2 ? 1
                          : place) *
                8,
            0, 0};
  }
  return {(half * 32 + lane) * 16 + group * 4, (number % 2 * 4 + number / 2) * 4,
          HighBitsAt(kind) + (half * 32 + lane) * 8 + group / 2 * 4,
          group % 2 * 8 + number / 2 * 2 + number % 2 * 16};
}

}  // namespace pie::cuda
