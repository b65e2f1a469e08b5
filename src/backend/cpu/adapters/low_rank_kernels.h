// The kernels behind low_rank.h, one for each instruction set.
#pragma once

#include <cstdint>

#include "backend/cpu/adapters/low_rank.h"

namespace pie::cpu {

void ShrinkScalar(const PackedLowRank& w, const float* x, float* h);
void ExpandScalar(const PackedLowRank& w, const float* h, uint32_t first, uint32_t count, float* y);

void ShrinkAvx2(const PackedLowRank& w, const float* x, float* h);
void ExpandAvx2(const PackedLowRank& w, const float* h, uint32_t first, uint32_t count, float* y);

void ShrinkAvx512(const PackedLowRank& w, const LowRankTile<const float>& x,
                  const LowRankTile<float>& h);
void ExpandAvx512(const PackedLowRank& w, const LowRankTile<const float>& h, uint32_t first,
                  uint32_t count, const LowRankTile<float>& y);
void AddSignedAvx512(const uint64_t* signs, float z, uint32_t count, float* y);

}  // namespace pie::cpu
