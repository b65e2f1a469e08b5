// Products of one row of x with the tiles of W that come through the ring (resident_ring.cuh).
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/gate.cuh"
#include "backend/cuda/kernels/packed.cuh"
#include "backend/cuda/kernels/resident_mail.cuh"
#include "backend/cuda/kernels/resident_ring.cuh"

namespace pie::cuda {

// Half of the warps multiply a stage, and the others the next one. A warp's part of a stage in
// bfloat16: every fourth group of 32 columns.
__device__ inline void MultiplyDense(const char* stage, const bf16* x, uint32_t columns, int warp,
                                     int lane, float (&acc)[4]) {
  constexpr int kTurns = kStageColumns / 32 / kSharers;
  constexpr int kAtOnce = 2;
  const char* const top = stage + lane / 4 * kStageRowBytes;
  float other[4] = {};  // products that do not wait for one another
#pragma unroll
  for (int first = 0; first < kTurns; first += kAtOnce) {
    uint4 a[kAtOnce];
    uint4 b[kAtOnce];
    uint4 v[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const uint32_t at = ((first + i) * kSharers + warp) * 32 + lane % 4 * 8;
      a[i] = b[i] = v[i] = make_uint4(0, 0, 0, 0);
      if (at < columns) {
        a[i] = *reinterpret_cast<const uint4*>(top + at * 2);
        b[i] = *reinterpret_cast<const uint4*>(top + 8 * kStageRowBytes + at * 2);
        v[i] = *reinterpret_cast<const uint4*>(x + at);
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      Mma(acc, a[i].x, b[i].x, a[i].y, b[i].y, v[i].x, v[i].y);
      Mma(other, a[i].z, b[i].z, a[i].w, b[i].w, v[i].z, v[i].w);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) acc[i] += other[i];
}

// The same for packed weights, for one span.
template <WeightKind kKind>
__device__ void MultiplySpan(const char* stage, const bf16* x, uint32_t span, int lane,
                             float (&acc)[4]) {
  RowSpan<kKind> top;
  RowSpan<kKind> bottom;
  const char* const tile = stage + span * TileBytes(kKind);
  const char* const scales =
      stage + StageSpans(kKind) * TileBytes(kKind) + span * (kTileRows * ScaleBytes(kKind));
  top.template Load<true>(tile, scales, lane, 0);
  bottom.template Load<true>(tile, scales, lane, 1);
  float whole[2][4] = {};  // fp8: the span's sums
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    uint32_t a[4];
    uint32_t b[4];
    top.Unpack(g, a);
    bottom.Unpack(g, b);
    uint4 v;
    if constexpr (kKind == WeightKind::kInt6) {  // as PlaceOf has the numbers of W
      const bf16* const from = x + span * kSpan + g * 32 + lane % 4 * 4;
      const uint2 low = *reinterpret_cast<const uint2*>(from);
      const uint2 high = *reinterpret_cast<const uint2*>(from + 16);
      v = make_uint4(low.x, low.y, high.x, high.y);
    } else {
      v = *reinterpret_cast<const uint4*>(x + span * kSpan + g * 32 + lane % 4 * 8);
    }
    if constexpr (kKind == WeightKind::kFp8) {
      Mma(whole[0], a[0], b[0], a[1], b[1], v.x, v.y);
      Mma(whole[1], a[2], b[2], a[3], b[3], v.z, v.w);
      continue;
    }
    float part[2][4] = {};
    float(&second)[4] = kKind == WeightKind::kInt6 ? part[1] : part[0];
    Mma(part[0], a[0], b[0], a[1], b[1], v.x, v.y);
    Mma(second, a[2], b[2], a[3], b[3], v.z, v.w);
    float sums[4] = {};  // of x
    if constexpr (kKind == WeightKind::kInt4Min) {
      Mma(sums, kOnes, kOnes, kOnes, kOnes, v.x, v.y);
      Mma(sums, kOnes, kOnes, kOnes, kOnes, v.z, v.w);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const RowSpan<kKind>& row = i < 2 ? top : bottom;
      acc[i] += row.Scale(g) * part[0][i];
      if constexpr (kKind == WeightKind::kInt6) acc[i] += row.Scale(g, 1) * part[1][i];
      if constexpr (kKind == WeightKind::kInt4Min) acc[i] += row.Minimum(g) * sums[i];
    }
  }
  if constexpr (kKind == WeightKind::kFp8) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      acc[i] += (i < 2 ? top : bottom).Scale(0) * (whole[0][i] + whole[1][i]);
    }
  }
}

template <WeightKind kKind>
__device__ void MultiplyPacked(const char* stage, const bf16* x, uint32_t columns, int warp,
                               int lane, float (&acc)[4]) {
#pragma unroll 2
  for (uint32_t span = warp; span < StageSpans(kKind); span += kSharers) {
    if (span * kSpan < columns) MultiplySpan<kKind>(stage, x, span, lane, acc);
  }
}

template <class Model>
__device__ inline void MultiplyStage(WeightKind kind, const char* stage, const bf16* x,
                                     uint32_t columns, int warp, int lane, float (&acc)[4]) {
  if constexpr (Model::kWeights != ResidentWeights::kAny) {
    if (Model::kWeights == ResidentWeights::kFp8 && kind == WeightKind::kFp8) {
      return MultiplyPacked<WeightKind::kFp8>(stage, x, columns, warp, lane, acc);
    }
    return MultiplyDense(stage, x, columns, warp, lane, acc);
  }
  switch (kind) {
    case WeightKind::kBf16:
      return MultiplyDense(stage, x, columns, warp, lane, acc);
    case WeightKind::kFp8:
      return MultiplyPacked<WeightKind::kFp8>(stage, x, columns, warp, lane, acc);
    case WeightKind::kInt8:
      return MultiplyPacked<WeightKind::kInt8>(stage, x, columns, warp, lane, acc);
    case WeightKind::kInt4:
      return MultiplyPacked<WeightKind::kInt4>(stage, x, columns, warp, lane, acc);
    case WeightKind::kInt4Min:
      return MultiplyPacked<WeightKind::kInt4Min>(stage, x, columns, warp, lane, acc);
    case WeightKind::kInt6:
      return MultiplyPacked<WeightKind::kInt6>(stage, x, columns, warp, lane, acc);
  }
}

// The products of a phase: this block's tiles of 16 rows of W.
template <class Model>
__device__ inline void MultiplyTiles(const ResidentPhase& phase, const ResidentLayout& room,
                                     char* shared, RingPlace& place, uint32_t phase_number) {
  auto* const full = reinterpret_cast<uint64_t*>(shared + room.barriers);
  uint64_t* const empty = full + kMostStages;
  const bf16* const x = reinterpret_cast<const bf16*>(shared + room.input);
  auto* const sums = reinterpret_cast<float*>(shared + room.sums);  // [2][kWarps][16]
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const uint32_t n = phase.n;
  const uint32_t k = phase.k;
  const WeightKind kind = phase.kind;
  const uint32_t stage_columns = StageColumns(kind);
  for (uint32_t tile = blockIdx.x; tile * kTileRows < n; tile += gridDim.x) {
    const uint32_t turn = place.turn++;
    float acc[4] = {};
    for (uint32_t column = 0; column < k; column += stage_columns) {
      if (static_cast<int>(place.count % 2) == warp / kSharers) {
        AwaitPhase(&full[place.stage], place.parity);
        MultiplyStage<Model>(kind, shared + room.ring + place.stage * kStageBytes, x + column,
                             min(stage_columns, k - column), warp % kSharers, lane, acc);
        __syncwarp();
        if (lane == 0) ArriveFor(&empty[place.stage], kWarps / kSharers);
      }
      place.Next(room.stages);
    }
    // The row of x is in all columns of the tile; only the first column's lanes are used.
    float* const own = sums + turn % 2 * (kWarps * kTileRows);
    if (lane % 4 == 0) {
      own[warp * kTileRows + lane / 4] = acc[0];
      own[warp * kTileRows + lane / 4 + 8] = acc[2];
    }
    MeetConsumers();
    if (warp != static_cast<int>(turn % kWarps)) continue;
    float sum = 0;
    if (lane < static_cast<int>(kTileRows)) {
#pragma unroll
      for (int i = 0; i < kWarps; ++i) sum += own[i * kTileRows + lane];
    }
    const uint32_t at = tile * kTileRows + lane;
    if (phase.output == ProductOutput::kGated) {
      const float up = __shfl_sync(0xFFFFFFFFU, sum, lane + 8);
      const float gated = GateOf(phase.gate, sum, up);
      const float next = __shfl_sync(0xFFFFFFFFU, gated, lane + 1);
      if (lane < 8 && lane % 2 == 0 && tile * 8 + lane < n / 2) {
        Send(phase.y + tile * 4 + lane / 2, PackBf16(gated, next), phase_number - phase.after);
      }
    } else if (lane < static_cast<int>(kTileRows) && at < n) {
      if (phase.last != nullptr) {
        phase.last[at] = sum;
      } else {
        Send(phase.y + at, __float_as_uint(sum), phase_number - phase.after);
      }
    }
  }
}

}  // namespace pie::cuda
