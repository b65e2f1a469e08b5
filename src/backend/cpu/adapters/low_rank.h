// Low-rank products on one thread: y += scale · B · (A · x), for the rows of one adapter.
//
// The product has two parts, because the first needs all of x and the second can be computed for
// any columns of y: Shrink makes h = scale · A · x, and Expand adds B · h. Weights are 16-bit
// floats, which are read once for a tile of rows. Each output is summed in one fixed order for any
// tile, so that a row's result does not depend on the rest of the batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/machine/aligned.h"
#include "backend/cpu/machine/cpu_features.h"

namespace pie::cpu {

inline constexpr uint32_t kLowRankRows = 3;  // the rows of the largest tile
inline constexpr uint32_t kRankGroup = 8;    // ranks are padded to whole groups
inline constexpr uint32_t kLowRankLanes = 16;

struct PackedLowRank {
  uint32_t rank = 0;  // padded; 0: there is no product
  uint32_t in = 0;
  uint32_t out = 0;
  float scale = 0;
  AlignedVector<uint16_t> a;  // [rank / 8, ⌈in / 16⌉, 8, 16], padded with 0
  AlignedVector<uint16_t> b;  // [⌈out / 16⌉, rank, 16], padded with 0

  size_t bytes() const { return (a.size() + b.size()) * sizeof(uint16_t); }
};

// The rows of a tile: pointers to `rows` inputs or outputs.
template <class T>
struct LowRankTile {
  T* row[kLowRankRows] = {};
  uint32_t rows = 0;
};

// h[i] = scale · A · x[i]; each h has w.rank numbers.
void Shrink(CpuLevel level, const PackedLowRank& w, const LowRankTile<const float>& x,
            const LowRankTile<float>& h);
// y[i] += B · h[i] for the columns [first, first + count). `first` is a multiple of 16; y points at
// that column.
void Expand(CpuLevel level, const PackedLowRank& w, const LowRankTile<const float>& h,
            uint32_t first, uint32_t count, const LowRankTile<float>& y);
// y[i] += bit i of `signs` ? z : -z.
void AddSigned(CpuLevel level, const uint64_t* signs, float z, uint32_t count, float* y);

}  // namespace pie::cpu
