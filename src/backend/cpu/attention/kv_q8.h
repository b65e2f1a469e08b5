// Quantisation of KV pages to bytes: 16 numbers of one token and head share an F16 scale, their
// greatest magnitude / 127, so the error is at most half a scale. (Blocks of 32 would halve the
// memory of scales, but some channels of keys are much larger than their neighbours: the error of
// SmolLM2's output doubled.)
//
// All CPU levels produce the same bytes and the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/machine/cpu_features.h"

namespace pie::cpu {

inline constexpr uint32_t kKvQuantBlock = 16;

constexpr uint32_t KvScales(uint32_t head_dim) {
  return (head_dim + kKvQuantBlock - 1) / kKvQuantBlock;
}

// Quantises in [n] to bytes `stride` apart and KvScales(n) scales `scale_stride` apart.
void QuantizeKv(CpuLevel level, const float* in, uint32_t n, int8_t* out, size_t stride,
                uint16_t* scales, size_t scale_stride);

// Sets out[i] to in[i] × scales[i] as halves, rounded to nearest. [n]
void UnpackKv(CpuLevel level, const int8_t* in, const float* scales, uint32_t n, uint16_t* out);
// The same with one scale for all numbers.
void UnpackKv(CpuLevel level, const int8_t* in, float scale, uint32_t n, uint16_t* out);

}  // namespace pie::cpu
