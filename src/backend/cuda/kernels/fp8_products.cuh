// Arithmetic of attention to keys and values in fp8, for attention_fp8.cu. A warp has 16 lines of
// queries and 16 keys.
//
// The products are in f16: on newer cards one instruction converts two e4m3 numbers to f16, while
// bfloat16 takes two instructions for each number. Lines are multiplied without their scales. A
// key's scale multiplies its scores. A value's scale is a power of two, which is added to the
// exponents of its weights before the greatest weight is found. So the largest weight, its scale
// included, is always 2^15: no operand becomes infinite, and no weight that matters becomes zero.
//
// A product may sum its terms in any order, and so its columns may have any order. A lane uses the
// 16 bytes that one load gives it for four steps along a key's line, or for sixteen columns of the
// values. The queries and the results are permuted accordingly.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/attention_tile.cuh"

namespace pie::cuda {

inline constexpr uint32_t kWarpKeys = 16;
inline constexpr uint32_t kAllLanes = 0xFFFFFFFFU;
// Columns of the values that a lane loads at a time.
template <int kDim>
inline constexpr uint32_t kRun = kDim >= 128 ? 16 : 8;

// The offset of 16 bytes of a line in a block's keys or values. Chunks are permuted so that eight
// lanes that load together use different banks: for keys, these lanes load every second chunk of
// two keys; for values, two chunks of every second value.
template <int kDim>
__device__ uint32_t Fp8ChunkAt(uint32_t row, uint32_t chunk) {
  return (row * kDim + chunk * 16) ^ ((row & 7) << 4);
}

// The chunks of a key's line that one lane of four loads.
template <int kDim>
__device__ uint32_t ChunkOfKey(uint32_t i, uint32_t quarter) {
  return kDim == 64 ? quarter : i / 2 * 8 + quarter * 2 + i % 2;
}

// The scales of a key and its value in one word. The scales of lines that were written are larger
// than the least scale that the word can hold.
struct Scales {
  uint32_t bits;

  // Lanes 0 to 15 get the scales of their keys.
  __device__ static Scales Of(uint32_t own) {
    const uint32_t least = max(own, 121U);
    const uint32_t other = __shfl_xor_sync(kAllLanes, least, 16);
    return {(least - 120) << 23 | other};
  }
  __device__ Scales From(uint32_t lane) const {
    return {__shfl_sync(kAllLanes, bits, static_cast<int>(lane))};
  }
  __device__ float OfKey() const { return __uint_as_float(bits & 0x7F800000U); }
  // Returns two numbers of the value's scale: log2(scale × 2^55), whose range is about that of its
  // inverse, and 1 / (that).
  __device__ float Log2OfValue() const {
    return __uint_as_float(0x4B000000U | (bits & 0xFFU)) - (0x1p23F + 192);
  }
  __device__ float InverseOfValue() const { return __uint_as_float((319U - bits) << 23); }
};
inline constexpr float kValueUnit = 0x1p-55F;
inline constexpr float kMostWeight = 15;  // log2 of the largest weight, in f16

// Turns the scores of 16 keys into weights, in place, as Weigh does (attention_tile.cuh). The scale
// of a value is included in its weight, but not in the sums of the lines. `most` is the exponent of
// a power of two.
__device__ inline void WeighScaled(const Attention& a, bool all_see, uint32_t first_key,
                                   const Scales& scales, const Line* lines,
                                   const float (&factors)[2], Line (&of)[2], float (&scores)[2][4],
                                   float (&shrinks)[2]) {
  const uint32_t lane = threadIdx.x % 32;
  Scales own[2][2];
#pragma unroll
  for (uint32_t n = 0; n < 2; ++n) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) own[n][i] = scales.From(n * 8 + lane % 4 * 2 + i);
  }
  const auto each_score = [&](auto&& change) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) change(scores[n][i], n, i);
    }
  };
  each_score(
      [&](float& score, int n, int i) { score = score * own[n][i % 2].OfKey() * factors[i / 2]; });
  if (a.softcap != 0) {
    each_score([&](float& score, int, int) { score = a.softcap * kLog2E * tanhf(score); });
  }
  if (!all_see) {
    each_score([&](float& score, int n, int i) {
      const Line& line = lines[lane / 4 + i / 2 * 8];
      if (!line.Sees(first_key + n * 8 + lane % 4 * 2 + i % 2)) score = -INFINITY;
    });
  }
  each_score([&](float& score, int n, int i) { score += own[n][i % 2].Log2OfValue(); });
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float most = of[i].most;
#pragma unroll
    for (int n = 0; n < 2; ++n) most = fmaxf(most, fmaxf(scores[n][2 * i], scores[n][2 * i + 1]));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    const float base = most == -INFINITY ? 0.0F : most;
    shrinks[i] = Exp2(of[i].most - base);
    of[i].most = most;
    of[i].sum *= shrinks[i];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float weight = Exp2(scores[n][2 * i + j] - (base - kMostWeight));
        scores[n][2 * i + j] = weight;
        of[i].sum = fmaf(weight, own[n][j].InverseOfValue(), of[i].sum);
      }
    }
  }
}

// Makes operands of a tile's queries: f16 numbers in the order of the keys' bytes, 16 bytes of a
// lane for each step of the products. Each line is multiplied by the power of two with which its
// largest number just fits; `factors` are the inverses of these powers.
template <int kDim>
__device__ void MakeQueries(const TileView& view, char* to, float* factors) {
  constexpr uint32_t kChunks = kDim / 16;  // of 16 numbers
  const uint32_t real_eights = view.a.kv.head_stride / 8;
  for (uint32_t i = threadIdx.x; i < kSmallTileLines * kChunks; i += blockDim.x) {
    const uint32_t line = i / kChunks;
    const uint32_t chunk = i % kChunks;
    uint32_t words[8] = {};
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      if (line >= view.lines || chunk * 2 + half >= real_eights) continue;
      const uint4 of = *reinterpret_cast<const uint4*>(view.QueryAt(line, chunk * 2 + half));
      words[half * 4] = of.x;
      words[half * 4 + 1] = of.y;
      words[half * 4 + 2] = of.z;
      words[half * 4 + 3] = of.w;
    }
    uint32_t most = 0;
#pragma unroll
    for (const uint32_t word : words) {
      most = max(most, max(word & 0x7FFFU, word >> 16 & 0x7FFFU));
    }
#pragma unroll
    for (int offset = kChunks / 2; offset > 0; offset /= 2) {
      most = max(most, __shfl_xor_sync(kAllLanes, most, offset));
    }
    // Lines with smaller numbers have scores of 0 anyway.
    const uint32_t exponent = max(most >> 7, 64U);
    const float factor = __uint_as_float((269U - exponent) << 23);
    if (chunk == 0) factors[line] = __uint_as_float((exponent - 15U) << 23);
    const auto low = [&](uint32_t word) { return __uint_as_float(word << 16) * factor; };
    const auto high = [&](uint32_t word) { return __uint_as_float(word & 0xFFFF0000U) * factor; };
    const uint32_t quarter = kDim == 64 ? chunk : chunk % 8 / 2;
    const uint32_t load = kDim == 64 ? 0 : chunk / 8 * 2 + chunk % 2;
#pragma unroll
    for (uint32_t step = 0; step < 4; ++step) {
      const uint32_t first = words[step * 2];
      const uint32_t second = words[step * 2 + 1];
      auto* const at = reinterpret_cast<uint32_t*>(to) +
                       ((load * 4 + step) * 32 + line % 8 * 4 + quarter) * 4 + line / 8;
      at[0] = PackHalves(low(first), low(second));
      at[2] = PackHalves(high(first), high(second));
    }
  }
}

// Computes the scores of this warp's keys, the first of which is line `row` of `keys`.
template <int kDim>
__device__ void Score(const char* queries, const char* keys, uint32_t row, float (&scores)[2][4]) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (uint32_t i = 0; i < kDim / 64; ++i) {
    const uint32_t chunk = ChunkOfKey<kDim>(i, lane % 4);
    uint32_t words[2][4];
#pragma unroll
    for (uint32_t n = 0; n < 2; ++n) {
      const uint4 bytes =
          *reinterpret_cast<const uint4*>(keys + Fp8ChunkAt<kDim>(row + n * 8 + lane / 4, chunk));
      words[n][0] = bytes.x;
      words[n][1] = bytes.y;
      words[n][2] = bytes.z;
      words[n][3] = bytes.w;
    }
#pragma unroll
    for (uint32_t step = 0; step < 4; ++step) {
      const uint4 q = reinterpret_cast<const uint4*>(queries)[(i * 4 + step) * 32 + lane];
#pragma unroll
      for (uint32_t n = 0; n < 2; ++n) {
        const uint2 k = HalvesOfE4m3(words[n][step]);
        MmaHalves(scores[n], q.x, q.y, q.z, q.w, k.x, k.y);
      }
    }
  }
}

// Adds the values of this warp's keys, multiplied by their weights.
template <int kDim>
__device__ void AddValues(const char* values, uint32_t row, const float (&weights)[2][4],
                          float (&out)[kDim / 8][4]) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t p[2][2];
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    p[n][0] = PackHalves(weights[n][0], weights[n][1]);
    p[n][1] = PackHalves(weights[n][2], weights[n][3]);
  }
#pragma unroll
  for (uint32_t part = 0; part < kDim / 8 / kRun<kDim>; ++part) {
    uint32_t words[2][2][kRun<kDim> / 4];  // for keys 0, 1, 8 and 9, counted from this lane's first
    const uint32_t byte = (part * 8 + lane / 4) * kRun<kDim>;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t(&to)[kRun<kDim> / 4] = words[i / 2][i % 2];
      const char* const from =
          values + Fp8ChunkAt<kDim>(row + i / 2 * 8 + lane % 4 * 2 + i % 2, byte / 16) + byte % 16;
      if constexpr (kRun<kDim> == 16) {
        const uint4 bytes = *reinterpret_cast<const uint4*>(from);
        to[0] = bytes.x;
        to[1] = bytes.y;
        to[2] = bytes.z;
        to[3] = bytes.w;
      } else {
        const uint2 bytes = *reinterpret_cast<const uint2*>(from);
        to[0] = bytes.x;
        to[1] = bytes.y;
      }
    }
#pragma unroll
    for (uint32_t word = 0; word < kRun<kDim> / 4; ++word) {
      const uint32_t tile = part * kRun<kDim> + word * 4;
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t order = half == 0 ? 0x5140U : 0x7362U;  // bytes of two keys alternate
        const uint2 v0 = HalvesOfE4m3(__byte_perm(words[0][0][word], words[0][1][word], order));
        const uint2 v1 = HalvesOfE4m3(__byte_perm(words[1][0][word], words[1][1][word], order));
        MmaHalves(out[tile + half * 2], p[0][0], p[0][1], p[1][0], p[1][1], v0.x, v1.x);
        MmaHalves(out[tile + half * 2 + 1], p[0][0], p[0][1], p[1][0], p[1][1], v0.y, v1.y);
      }
    }
  }
}

}  // namespace pie::cuda
