// Numbers of a KV page as bytes with scales: 16 numbers of one token and head share a scale, F16,
// their greatest magnitude ÷ 127. A number is then off by at most half a scale. (With 32 the scales
// take half the room, but keys have channels that are much greater than their neighbours: twice the
// error in what SmolLM2 says.)
//
// Levels give the same bytes and the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/machine/cpu_features.h"

namespace pie::cpu {

inline constexpr uint32_t kKvQuantBlock = 16;

constexpr uint32_t KvScales(uint32_t head_dim) {
  return (head_dim + kKvQuantBlock - 1) / kKvQuantBlock;
}

// in [n] → bytes `stride` apart, and KvScales(n) scales `scale_stride` apart.
void QuantizeKv(CpuLevel level, const float* in, uint32_t n, int8_t* out, size_t stride,
                uint16_t* scales, size_t scale_stride);

// out[i] = in[i] × scales[i], as halves rounded to nearest. [n]
void UnpackKv(CpuLevel level, const int8_t* in, const float* scales, uint32_t n, uint16_t* out);
// The same with one scale for all.
void UnpackKv(CpuLevel level, const int8_t* in, float scale, uint32_t n, uint16_t* out);

}  // namespace pie::cpu
