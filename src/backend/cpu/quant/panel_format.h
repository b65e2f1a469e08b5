// PanelFormat: how a packed matrix stores its numbers. A few formats serve all types of model
// files.
//
// Sixteen output rows are interleaved in a *panel*: one vector register holds four consecutive
// bytes of each row, as a byte dot product takes them. A panel is a sequence of blocks that is read
// front to back, so one pass over a matrix is one pass over its memory. A block of a quantised
// format has 32 columns:
//   values   u4…u6  [4][16 rows][4 bytes]: byte j of group g has column 4g + j in its low half and
//                   column 16 + 4g + j in its high half
//            u8     [8][16 rows][4 bytes]
//   high     u5     [8] words of 64 bits: bit 4 × row + j of word v belongs to byte j of vector v
//            u6     [2][16 rows][4 bytes]: vectors 4p … 4p + 3 have two bits each in plane p
//   scales   [1 or 2][16 rows] F16: of all 32 columns, or of the first and the last 16
//   minima   [2][16 rows] F16, if the format has two scales and minima
// In formats with one scale, the minima follow the panel's blocks as integer multiples of one unit
// per row, so that the minima of two blocks are multiplied with the sums of x (quantize.h) in one
// integer product:
//   minima   [pairs of blocks][16 rows][2] int16; an odd last block is paired with zeros
//   units    [16 rows] F32
// Vector v is 64 bytes: four columns of all rows. With four to six bits, even vectors hold the
// first 16 columns, from 4 × (v / 2) on, and odd ones the last 16; with eight bits, vector v holds
// columns 4v to 4v + 3. A stored number q means scale × (q - offset), scale × q + minimum or scale
// × steps[q].
//
// Float formats are [columns][16 rows]. BF16 is [pairs of columns][16 rows][2], as AMX tiles take
// it; an odd last column is paired with zeros.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "model/block_bytes.h"

namespace pie::cpu {

inline constexpr uint32_t kPanelRows = 16;

enum class PanelFormat : uint8_t {
  kU4,      // Q4_0
  kU4Min,   // Q4_1, Q4_K
  kU4Min2,  // Q2_K, Q3_K: two scales
  kU5Min,   // Q5_0, Q5_1, Q5_K
  kU6Two,   // Q6_K: two scales
  kU8,      // Q8_0
  kIq4,     // IQ4_NL, IQ4_XS: steps
  kE2m1,    // MXFP4: steps
  kF16,
  kBF16,
  kF32,
};

using Steps = std::array<int8_t, 16>;

// The parts of a format. Offsets and sizes are in bytes of a block.
struct PanelLayout {
  bool quantized = true;
  uint32_t bits = 4;
  uint32_t scales = 1;  // scales per row
  bool has_min = false;
  int32_t offset = 0;
  // not derived from `steps`: under sanitizers, g++ cannot compare pointers in constant expressions
  bool stepped = false;
  const Steps* steps = nullptr;
  uint32_t float_bytes = 0;  // bytes per number of a format that is not quantised
  bool paired = false;

  constexpr bool nibbles() const { return bits < 8; }
  constexpr bool whole_min() const { return has_min && scales == 1; }
  constexpr uint32_t columns() const { return quantized ? 32 : paired ? 2 : 1; }  // of a block
  constexpr uint32_t blocks(uint32_t of_columns) const {
    return (of_columns + columns() - 1) / columns();
  }
  constexpr uint32_t high_at() const { return nibbles() ? 256 : 512; }
  constexpr uint32_t scale_at() const { return high_at() + (bits == 5 ? 64 : bits == 6 ? 128 : 0); }
  constexpr uint32_t min_at() const { return scale_at() + scales * 32; }
  constexpr uint32_t bytes() const {
    return quantized ? min_at() + (has_min && !whole_min() ? scales * 32 : 0)
                     : float_bytes * kPanelRows * columns();
  }
  // Offsets within a panel of `blocks` blocks, and its size.
  constexpr size_t minima_at(uint32_t blocks) const { return size_t{blocks} * bytes(); }
  constexpr size_t units_at(uint32_t blocks) const {
    return minima_at(blocks) + size_t{(blocks + 1) / 2} * 64;
  }
  constexpr size_t panel_bytes(uint32_t blocks) const {
    const size_t used = whole_min() ? units_at(blocks) + 64 : minima_at(blocks);
    return (used + 63) / 64 * 64;
  }
};

// The largest integer multiple of minima, and of the sums they are multiplied with, for which the
// products of a row of `blocks` blocks sum to less than 2^31.
inline int32_t WholeLimit(uint32_t blocks) {
  return std::min(32767, static_cast<int32_t>(std::sqrt(2147483647.0 / std::max(blocks, 1U))));
}

constexpr PanelLayout LayoutOf(PanelFormat format) {
  switch (format) {
    case PanelFormat::kU4:
      return {.offset = 8};
    case PanelFormat::kU4Min:
      return {.has_min = true};
    case PanelFormat::kU4Min2:
      return {.scales = 2, .has_min = true};
    case PanelFormat::kU5Min:
      return {.bits = 5, .has_min = true};
    case PanelFormat::kU6Two:
      return {.bits = 6, .scales = 2, .offset = 32};
    case PanelFormat::kU8:
      return {.bits = 8, .offset = 128};
    case PanelFormat::kIq4:
      return {.stepped = true, .steps = &kIq4Steps};
    case PanelFormat::kE2m1:
      return {.stepped = true, .steps = &kE2m1Steps};
    case PanelFormat::kF16:
      return {.quantized = false, .float_bytes = 2};
    case PanelFormat::kBF16:
      return {.quantized = false, .float_bytes = 2, .paired = true};
    case PanelFormat::kF32:
      return {.quantized = false, .float_bytes = 4};
  }
  return {};
}

}  // namespace pie::cpu
