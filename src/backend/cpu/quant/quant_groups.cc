#include "backend/cpu/quant/quant_groups.h"

#include <cmath>
#include <cstring>

#include "base/result.h"
#include "model/block_bytes.h"

namespace pie::cpu {
namespace {

// model/dequantize.cc describes the layouts of all blocks.
uint8_t TwoBits(BlockBytes packed, int i) {
  return packed[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}
uint8_t FourBits(BlockBytes packed, int i) {
  return packed[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 0xF;
}

// Reads 32 numbers from 16 bytes, to q[first] and up.
void Nibbles(BlockBytes packed, int first, QuantGroups& out) {
  for (int i = 0; i < 16; ++i) {
    out.q[first + i] = packed[i] & 0xF;
    out.q[first + 16 + i] = packed[i] >> 4;
  }
}

// Sets the two groups of 32 numbers.
void SetPair(int pair, float scale, float min, QuantGroups& out) {
  out.scale[2 * pair] = out.scale[2 * pair + 1] = scale;
  out.min[2 * pair] = out.min[2 * pair + 1] = min;
}

void Q5(BlockBytes in, bool has_min, QuantGroups& out) {
  const float d = Half(in);
  SetPair(0, d, has_min ? Half(in + 2) : -16 * d, out);
  const BlockBytes bits = in + (has_min ? 4 : 2);
  const uint32_t high = U32(bits);
  Nibbles(bits + 4, 0, out);
  for (int i = 0; i < 32; ++i) out.q[i] |= (high >> i & 1) << 4;
}

void Q2K(BlockBytes in, QuantGroups& out) {
  for (int i = 0; i < 256; ++i) out.q[i] = TwoBits(in + 16, i);
  for (int g = 0; g < 16; ++g) {
    out.scale[g] = Half(in + 80) * static_cast<float>(in[g] & 0xF);
    out.min[g] = -Half(in + 82) * static_cast<float>(in[g] >> 4);
  }
}

void Q3K(BlockBytes in, QuantGroups& out) {
  const BlockBytes scales = in + 96;
  for (int i = 0; i < 256; ++i) {
    out.q[i] = TwoBits(in + 32, i) | (in[i % 32] >> (i / 32) & 1) << 2;
  }
  for (int g = 0; g < 16; ++g) {
    const int scale = (scales[g % 8] >> (g / 8 * 4) & 0xF) | (scales[8 + g % 4] >> (g / 4 * 2) & 3)
                                                                 << 4;
    out.scale[g] = Half(in + 108) * static_cast<float>(scale - 32);
    out.min[g] = -4 * out.scale[g];
  }
}

// Reads Q4_K, and Q5_K with its high bits.
void Q45K(BlockBytes in, bool five, QuantGroups& out) {
  const BlockBytes packed = in + 4;  // eight six-bit scales and minima
  for (int g = 0; g < 8; ++g) {
    const int scale = g < 4 ? packed[g] & 63 : (packed[g + 4] & 0xF) | packed[g - 4] >> 6 << 4;
    const int min = g < 4 ? packed[g + 4] & 63 : packed[g + 4] >> 4 | packed[g] >> 6 << 4;
    SetPair(g, Half(in) * static_cast<float>(scale), -Half(in + 2) * static_cast<float>(min), out);
  }
  for (int i = 0; i < 256; ++i) {
    out.q[i] = FourBits(in + (five ? 48 : 16), i);
    if (five) out.q[i] |= (in[16 + i % 32] >> (i / 32) & 1) << 4;
  }
}

void Q6K(BlockBytes in, QuantGroups& out) {
  for (int i = 0; i < 256; ++i) {
    const int low = in[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 0xF;
    out.q[i] = static_cast<uint8_t>(low | TwoBits(in + 128, i) << 4);
  }
  for (int g = 0; g < 16; ++g) {
    out.scale[g] = Half(in + 208) * static_cast<float>(static_cast<int8_t>(in[192 + g]));
    out.min[g] = -32 * out.scale[g];
  }
}

void Iq4Xs(BlockBytes in, QuantGroups& out) {
  const uint32_t high = U16(in + 2);
  for (int g = 0; g < 8; ++g) {
    const int low = in[4 + g / 2] >> (g % 2 * 4) & 0xF;
    const int scale = low | static_cast<int>(high >> (g * 2) & 3) << 4;
    SetPair(g, Half(in) * static_cast<float>(scale - 32), 0, out);
    Nibbles(in + 8 + g * 16, g * 32, out);
  }
}

}  // namespace

void ReadGroups(DType dtype, const std::byte* data, QuantGroups& out) {
  const auto* const in = reinterpret_cast<BlockBytes>(data);
  switch (dtype) {
    case DType::kQ5_0:
      return Q5(in, false, out);
    case DType::kQ5_1:
      return Q5(in, true, out);
    case DType::kQ2_K:
      return Q2K(in, out);
    case DType::kQ3_K:
      return Q3K(in, out);
    case DType::kQ4_K:
      return Q45K(in, false, out);
    case DType::kQ5_K:
      return Q45K(in, true, out);
    case DType::kQ6_K:
      return Q6K(in, out);
    case DType::kIQ4_NL:
      SetPair(0, Half(in), 0, out);
      return Nibbles(in + 2, 0, out);
    case DType::kIQ4_XS:
      return Iq4Xs(in, out);
    case DType::kMXFP4:
      SetPair(0, std::ldexp(1.0F, in[0] - 128), 0, out);  // one less, because the steps are doubled
      return Nibbles(in + 1, 0, out);
    default:
      PIE_CHECK(false);
  }
}

}  // namespace pie::cpu
