// Reads the fields of quantised blocks in model files (little-endian, at any address), and has the
// tables of their formats.
#pragma once

#include <array>
#include <cstdint>

#include "model/half.h"

namespace pie {

using BlockBytes = const uint8_t*;

// The sixteen values of IQ4: they are closer together near zero, where most weights are.
inline constexpr std::array<int8_t, 16> kIq4Steps = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};
// The values of MXFP4's 4-bit float (1 sign, 2 exponent, 1 fraction bit), doubled to make them
// integers.
inline constexpr std::array<int8_t, 16> kE2m1Steps = {0, 1,  2,  3,  4,  6,  8,  12,
                                                      0, -1, -2, -3, -4, -6, -8, -12};

inline uint16_t U16(BlockBytes in) {
  return static_cast<uint16_t>(in[0] | in[1] << 8);
}
inline uint32_t U32(BlockBytes in) {
  return U16(in) | static_cast<uint32_t>(U16(in + 2)) << 16;
}
inline float Half(BlockBytes in) {
  return HalfToFloat(U16(in));
}

}  // namespace pie
