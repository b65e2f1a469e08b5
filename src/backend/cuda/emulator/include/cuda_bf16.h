// The part of CUDA's header of this name that the kernels use.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

struct __nv_bfloat16 {
  uint16_t bits;
};
struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
inline __nv_bfloat16 __float2bfloat16(float x) {
  const uint32_t bits = __float_as_uint(x);
  if (x != x) return {0x7FFF};
  return {static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16)};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16(x), __float2bfloat16(y)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 x) {
  return {__bfloat162float(x.x), __bfloat162float(x.y)};
}
