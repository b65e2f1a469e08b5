// Fields of quantised blocks as model files have them: little-endian, at any address.
#pragma once

#include <cstdint>

#include "model/half.h"

namespace pie {

using Block = const uint8_t*;

inline uint16_t U16(Block in) {
  return static_cast<uint16_t>(in[0] | in[1] << 8);
}
inline uint32_t U32(Block in) {
  return U16(in) | static_cast<uint32_t>(U16(in + 2)) << 16;
}
inline float Half(Block in) {
  return HalfToFloat(U16(in));
}

}  // namespace pie
