#include "backend/cpu/adapters/low_rank.h"

#include <algorithm>

#include "backend/cpu/adapters/low_rank_kernels.h"
#include "base/result.h"
#include "model/half.h"

namespace pie::cpu {

void ShrinkScalar(const PackedLowRank& w, const float* x, float* h) {
  const uint16_t* a = w.a.data();
  for (uint32_t group = 0; group < w.rank; group += kRankGroup) {
    float sums[kRankGroup] = {};
    for (uint32_t first = 0; first < w.in; first += kLowRankLanes) {
      const uint32_t count = std::min(kLowRankLanes, w.in - first);
      for (uint32_t j = 0; j < kRankGroup; ++j, a += kLowRankLanes) {
        for (uint32_t i = 0; i < count; ++i) sums[j] += HalfToFloat(a[i]) * x[first + i];
      }
    }
    for (uint32_t j = 0; j < kRankGroup; ++j) h[group + j] = sums[j] * w.scale;
  }
}

void ExpandScalar(const PackedLowRank& w, const float* h, uint32_t first, uint32_t count,
                  float* y) {
  const uint16_t* b = w.b.data() + size_t{first} * w.rank;
  for (uint32_t at = 0; at < count; at += kLowRankLanes, b += size_t{w.rank} * kLowRankLanes) {
    const uint32_t lanes = std::min(kLowRankLanes, count - at);
    for (uint32_t i = 0; i < lanes; ++i) {
      float sum = 0;
      for (uint32_t j = 0; j < w.rank; ++j) sum += HalfToFloat(b[j * kLowRankLanes + i]) * h[j];
      y[at + i] += sum;
    }
  }
}

void Shrink(CpuLevel level, const PackedLowRank& w, const LowRankTile<const float>& x,
            const LowRankTile<float>& h) {
  if (level >= CpuLevel::kAvx512) return ShrinkAvx512(w, x, h);
  for (uint32_t i = 0; i < x.rows; ++i) {
    level >= CpuLevel::kAvx2 ? ShrinkAvx2(w, x.row[i], h.row[i])
                             : ShrinkScalar(w, x.row[i], h.row[i]);
  }
}

void Expand(CpuLevel level, const PackedLowRank& w, const LowRankTile<const float>& h,
            uint32_t first, uint32_t count, const LowRankTile<float>& y) {
  PIE_CHECK(first % kLowRankLanes == 0 && first + count <= w.out);
  if (level >= CpuLevel::kAvx512) return ExpandAvx512(w, h, first, count, y);
  for (uint32_t i = 0; i < h.rows; ++i) {
    level >= CpuLevel::kAvx2 ? ExpandAvx2(w, h.row[i], first, count, y.row[i])
                             : ExpandScalar(w, h.row[i], first, count, y.row[i]);
  }
}

void AddSigned(CpuLevel level, const uint64_t* signs, float z, uint32_t count, float* y) {
  if (level >= CpuLevel::kAvx512) return AddSignedAvx512(signs, z, count, y);
  for (uint32_t i = 0; i < count; ++i) y[i] += (signs[i / 64] >> (i % 64) & 1) != 0 ? z : -z;
}

}  // namespace pie::cpu
