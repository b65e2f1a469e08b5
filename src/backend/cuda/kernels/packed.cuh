// Reads packed matrices (packed.h) on the device.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/packed.h"

namespace pie::cuda {

inline constexpr uint32_t kOnes = 0x3F803F80U;        // a pair of bfloat16
inline constexpr uint32_t kMinusZeros = 0x80008000U;  // adds nothing, also to -0
inline constexpr uint32_t kTwoTo120 = 0x7B807B80U;    // makes a bfloat16 of e4m3's bits
inline constexpr uint32_t k128 = 0x43004300U;         // a bfloat16 with 7 free bits
inline constexpr uint32_t kMinus128 = 0xC300C300U;
inline constexpr uint32_t kMinus136 = 0xC308C308U;
inline constexpr uint32_t kMinus160 = 0xC320C320U;

// Two pairs of e4m3, in bytes 0 and 2 and in bytes 1 and 3, whose bits become those of a bfloat16
// that is too small by `factor`.
__device__ inline uint2 PairsOfE4m3(uint32_t bytes, uint32_t factor) {
  const uint32_t even = (bytes & 0x007F007FU) << 4 | (bytes & 0x00800080U) << 8;
  const uint32_t odd = (bytes & 0x7F007F00U) >> 4 | (bytes & 0x80008000U);
  return make_uint2(MultiplyAddPairs(even, factor, kMinusZeros),
                    MultiplyAddPairs(odd, factor, kMinusZeros));
}

// Two pairs of f16, from the e4m3 in bytes 0 and 1 and in bytes 2 and 3. NaN may become a number.
__device__ inline uint2 HalvesOfE4m3(uint32_t bytes) {
#if PIE_HAS_E4M3
  return ConvertE4m3(bytes);
#else
  // The bits of an e4m3 number, read as f16, give a number that is too small by a factor of 2^8.
  const auto pair = [](uint32_t high_bytes) {
    const uint32_t bits = (high_bytes >> 1 & 0x3F803F80U) | (high_bytes & 0x80008000U);
    return MultiplyHalves(bits, 0x5C005C00U);
  };
  return make_uint2(pair(__byte_perm(bytes, 0, 0x1404)), pair(__byte_perm(bytes, 0, 0x3424)));
#endif
}

// The numbers of one row in a span that a lane has, and the row's scales.
template <WeightKind kKind>
struct RowSpan {
  uint4 bits[VectorsOf(kKind)];
  uint2 high;
  uint4 scales;

  // `tile` and `scales_of` point at those of the tile; `half` says which of the lane's rows.
  template <bool kShared = false>  // they are in shared memory
  __device__ void Load(const char* tile, const char* scales_of, int lane, int half) {
    const auto load = [](const auto* from) {
      if constexpr (kShared) {
        return *from;
      } else {
        return __ldcs(from);
      }
    };
#pragma unroll
    for (int v = 0; v < static_cast<int>(VectorsOf(kKind)); ++v) {
      bits[v] = load(reinterpret_cast<const uint4*>(tile) + (v * 2 + half) * 32 + lane);
    }
    if constexpr (kKind == WeightKind::kInt6) {
      high = load(reinterpret_cast<const uint2*>(tile + HighBitsAt(kKind)) + half * 32 + lane);
    }
    const char* const at = scales_of + (half * 8 + lane / 4) * ScaleBytes(kKind);
    if constexpr (ScaleBytes(kKind) == 4) {
      scales.x = *reinterpret_cast<const uint32_t*>(at);
    } else if constexpr (ScaleBytes(kKind) == 8) {
      const uint2 two = *reinterpret_cast<const uint2*>(at);
      scales.x = two.x;
      scales.y = two.y;
    } else {
      scales = *reinterpret_cast<const uint4*>(at);
    }
  }

  __device__ uint32_t Word(int i) const { return WordOf(bits[i / 4], i % 4); }

  // The eight numbers of group `g` of 32 columns, as pairs of bfloat16, without their scale.
  __device__ void Unpack(int g, uint32_t (&pairs)[4]) const {
    if constexpr (kKind == WeightKind::kFp8) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint2 two = PairsOfE4m3(Word(g * 2 + i), kTwoTo120);
        pairs[2 * i] = two.x;
        pairs[2 * i + 1] = two.y;
      }
    } else if constexpr (kKind == WeightKind::kInt8) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t word = Word(g * 2 + i);
        // A byte in the last bits of 2^23 is 2^23 + byte.
        const auto number = [&](uint32_t byte) {
          return __uint_as_float(__byte_perm(word, 0x4B000000U, 0x7440U | byte)) - 8388736.0F;
        };
        pairs[2 * i] = PackBf16(number(0), number(2));
        pairs[2 * i + 1] = PackBf16(number(1), number(3));
      }
    } else {
      constexpr uint32_t kOffset = kKind == WeightKind::kInt4      ? kMinus136
                                   : kKind == WeightKind::kInt4Min ? kMinus128
                                                                   : kMinus160;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        uint32_t pair = Word(g) >> (4 * i) & 0x000F000FU;
        if constexpr (kKind == WeightKind::kInt6) {
          const uint32_t word = g < 2 ? high.x : high.y;
          pair |= (word >> (g % 2 * 8 + i * 2) & 0x00030003U) << 4;
        }
        pairs[i] = MultiplyAddPairs(pair | k128, kOnes, kOffset);
      }
    }
  }

  // Scale of the first or second half of a group; the halves differ in kInt6 only.
  __device__ float Scale(int g, int half = 0) const {
    if constexpr (kKind == WeightKind::kFp8) {
      return __uint_as_float(scales.x);
    } else if constexpr (kKind == WeightKind::kInt4Min || kKind == WeightKind::kInt6) {
      return HalfOf(WordOf(scales, g) >> (16 * half));
    } else {
      return HalfOf(WordOf(scales, g / 2) >> (16 * (g % 2)));
    }
  }
  // Minimum of a group: kInt4Min only.
  __device__ float Minimum(int g) const { return HalfOf(WordOf(scales, g) >> 16); }

 private:
  __device__ static uint32_t WordOf(const uint4& words, int i) {
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
  }
  __device__ static float HalfOf(uint32_t bits) {
    return HalfToFloat(static_cast<uint16_t>(bits & 0xFFFFU));
  }
};

// One number of a packed matrix, slowly.
__device__ inline float PackedNumber(WeightKind kind, const void* data, const void* scales,
                                     uint32_t row, uint32_t column, uint32_t columns) {
  const uint64_t tile = TileOf(row, column, columns);
  const PackedPlace place = PlaceOf(kind, row, column);
  const char* const bytes = static_cast<const char*>(data) + tile * TileBytes(kind);
  const char* const scales_of =
      static_cast<const char*>(scales) + (tile * kTileRows + row % kTileRows) * ScaleBytes(kind);
  const uint32_t word = *reinterpret_cast<const uint32_t*>(bytes + place.byte) >> place.bit;
  const uint32_t g = column % kSpan / 32;
  const auto half = [&](uint32_t i) {
    return HalfToFloat(reinterpret_cast<const uint16_t*>(scales_of)[i]);
  };
  switch (kind) {
    case WeightKind::kFp8: {
      const uint32_t bits = (word & 0x7FU) << 20 | (word & 0x80U) << 24;
      return __uint_as_float(bits) * 0x1p120F * *reinterpret_cast<const float*>(scales_of);
    }
    case WeightKind::kInt8:
      return half(g) * (static_cast<float>(word & 0xFFU) - 128);
    case WeightKind::kInt4:
      return half(g) * (static_cast<float>(word & 0xFU) - 8);
    case WeightKind::kInt4Min:
      return half(2 * g) * static_cast<float>(word & 0xFU) + half(2 * g + 1);
    case WeightKind::kInt6: {
      const uint32_t high =
          *reinterpret_cast<const uint32_t*>(bytes + place.high_byte) >> place.high_bit & 3U;
      return half(2 * g + column % 32 / 16) * (static_cast<float>((word & 0xFU) | high << 4) - 32);
    }
    case WeightKind::kBf16:
      break;
  }
  return 0;
}

}  // namespace pie::cuda
