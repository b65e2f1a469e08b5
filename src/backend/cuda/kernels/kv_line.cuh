// A line of the KV cache in fp8 (KvShape in layer.h).
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/layer.h"

namespace pie::cuda {

// Rounds to the nearest e4m3, ties to even; larger numbers become 448.
__device__ inline uint32_t E4m3Of(float x) {
  const uint32_t sign = __float_as_uint(x) >> 24 & 0x80U;
  const float magnitude = fminf(fabsf(x), 448.0F);
  // Subnormal: the last bits of 2^14 + x count multiples of 2^-9.
  if (magnitude < 0x1p-6F) return sign | (__float_as_uint(magnitude + 16384.0F) & 0xFU);
  const uint32_t bits = __float_as_uint(magnitude);
  return sign | (((bits + 0x7FFFFU + (bits >> 20 & 1U)) >> 20) - 120U * 8);
}

// Writes a line to `to`, and returns its scale. Whole warp.
__device__ inline uint32_t WriteFp8Line(const KvShape& kv, const float* numbers, uint32_t* to,
                                        uint32_t lane) {
  float most = 0;
  for (uint32_t i = lane; i < kv.head_stride; i += 32) most = fmaxf(most, fabsf(numbers[i]));
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, offset));
  }
  const uint32_t exponent = __float_as_uint(most) >> 23;
  const uint32_t scale = min(max(exponent + 113U, 130U), 254U);
  const float factor = __uint_as_float((374U - scale) << 23);
  for (uint32_t i = lane; i < kv.line_bytes() / 4; i += 32) {
    const auto number = [&](uint32_t j) {
      return 4 * i + j < kv.head_stride ? E4m3Of(numbers[4 * i + j] * factor) : 0U;
    };
    to[i] = number(0) | number(2) << 8 | number(1) << 16 | number(3) << 24;
  }
  return scale;
}

}  // namespace pie::cuda
