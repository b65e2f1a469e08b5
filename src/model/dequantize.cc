#include "model/dequantize.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "model/block_bytes.h"
#include "model/fp8.h"
#include "model/half.h"

namespace pie {
namespace {

// A block function reads one block at `in` and writes its numbers to `out`. The comment on each
// function gives the block's layout as its fields in order; f16 fields are little-endian.
using BlockFunction = void (*)(BlockBytes in, float* out);

// Number i of 32 in 16 bytes: the low nibbles hold the first 16 numbers, the high ones the rest.
int Nibble(BlockBytes packed, int i) {
  return i < 16 ? packed[i] & 0xF : packed[i - 16] >> 4;
}

void F32(BlockBytes in, float* out) {
  std::memcpy(out, in, sizeof(float));
}
void F16(BlockBytes in, float* out) {
  *out = Half(in);
}
void BF16(BlockBytes in, float* out) {
  *out = BFloatToFloat(U16(in));
}
void F8(BlockBytes in, float* out) {
  *out = E4m3ToFloat(*in);
}

// f16 d, i8 q[32]: d × q
void Q8_0(BlockBytes in, float* out) {
  const float d = Half(in);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(in[2 + i]));
}

// f16 d, u4 q[32]: d × (q - 8)
void Q4_0(BlockBytes in, float* out) {
  const float d = Half(in);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(Nibble(in + 2, i) - 8);
}

// f16 d, f16 m, u4 q[32]: d × q + m
void Q4_1(BlockBytes in, float* out) {
  const float d = Half(in);
  const float m = Half(in + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(Nibble(in + 4, i)) + m;
}

// f16 d, u1 high[32], u4 low[32]: d × (q - 16)
void Q5_0(BlockBytes in, float* out) {
  const float d = Half(in);
  const uint32_t high = U32(in + 2);
  for (int i = 0; i < 32; ++i) {
    const int q = Nibble(in + 6, i) | static_cast<int>((high >> i) & 1) << 4;
    out[i] = d * static_cast<float>(q - 16);
  }
}

// f16 d, f16 m, u1 high[32], u4 low[32]: d × q + m
void Q5_1(BlockBytes in, float* out) {
  const float d = Half(in);
  const float m = Half(in + 2);
  const uint32_t high = U32(in + 4);
  for (int i = 0; i < 32; ++i) {
    const int q = Nibble(in + 8, i) | static_cast<int>((high >> i) & 1) << 4;
    out[i] = d * static_cast<float>(q) + m;
  }
}

// The K types have 256 numbers per block in groups of 16 or 32. Each group has a small integer
// scale (and minimum), which is multiplied by d (and dmin).

// Number i of 256 numbers of two bits: 32 bytes hold 128 numbers, as four runs of 32 by bit
// position.
int TwoBits(BlockBytes packed, int i) {
  return (packed[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
}

// u4 (scale, min)[16], u2 q[256], f16 d, f16 dmin; groups of 16: d × scale × q - dmin × min
void Q2_K(BlockBytes in, float* out) {
  const BlockBytes scales = in;
  const BlockBytes packed = in + 16;
  const float d = Half(in + 80);
  const float dmin = Half(in + 82);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(scales[i / 16] & 0xF);
    const float min = dmin * static_cast<float>(scales[i / 16] >> 4);
    out[i] = scale * static_cast<float>(TwoBits(packed, i)) - min;
  }
}

// u1 high[256], u2 low[256], u6 scale[16], f16 d; groups of 16: d × (scale - 32) × (q - 4)
void Q3_K(BlockBytes in, float* out) {
  const BlockBytes high = in;
  const BlockBytes low = in + 32;
  const BlockBytes scales = in + 96;
  const float d = Half(in + 108);
  for (int i = 0; i < 256; ++i) {
    const int group = i / 16;
    // Bytes 0–7 hold the low four bits, bytes 8–11 the high two.
    const int scale = ((scales[group % 8] >> (group / 8 * 4)) & 0xF) |
                      ((scales[8 + group % 4] >> (group / 4 * 2)) & 3) << 4;
    const int q = TwoBits(low, i) | ((high[i % 32] >> (i / 32)) & 1) << 2;
    out[i] = d * static_cast<float>(scale - 32) * static_cast<float>(q - 4);
  }
}

struct ScaleAndMin {
  float scale;
  float min;
};

// Eight six-bit scales and minimums in 12 bytes. The first four scales are the low six bits of
// bytes 0–3, the first four minimums those of bytes 4–7. The last four of each have their low four
// bits in bytes 8–11 and their high two bits in the high bits of bytes 0–7.
ScaleAndMin SixBits(BlockBytes packed, int group) {
  if (group < 4) {
    return {static_cast<float>(packed[group] & 63), static_cast<float>(packed[group + 4] & 63)};
  }
  const int nibbles = packed[group + 4];
  return {static_cast<float>((nibbles & 0xF) | packed[group - 4] >> 6 << 4),
          static_cast<float>(nibbles >> 4 | packed[group] >> 6 << 4)};
}

// Number i of 256 numbers of four bits: 32 bytes hold 64 numbers, low nibbles first.
int FourBits(BlockBytes packed, int i) {
  return (packed[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 0xF;
}

// f16 d, f16 dmin, u6 (scale, min)[8], u4 q[256]; groups of 32: d × scale × q - dmin × min
void Q4_K(BlockBytes in, float* out) {
  const float d = Half(in);
  const float dmin = Half(in + 2);
  for (int i = 0; i < 256; ++i) {
    const ScaleAndMin group = SixBits(in + 4, i / 32);
    out[i] = d * group.scale * static_cast<float>(FourBits(in + 16, i)) - dmin * group.min;
  }
}

// f16 d, f16 dmin, u6 (scale, min)[8], u1 high[256], u4 low[256]; the formula of Q4_K
void Q5_K(BlockBytes in, float* out) {
  const float d = Half(in);
  const float dmin = Half(in + 2);
  const BlockBytes high = in + 16;
  for (int i = 0; i < 256; ++i) {
    const ScaleAndMin group = SixBits(in + 4, i / 32);
    const int q = FourBits(in + 48, i) | ((high[i % 32] >> (i / 32)) & 1) << 4;
    out[i] = d * group.scale * static_cast<float>(q) - dmin * group.min;
  }
}

// u4 low[256], u2 high[256], i8 scale[16], f16 d; groups of 16: d × scale × (q - 32)
void Q6_K(BlockBytes in, float* out) {
  const BlockBytes scales = in + 192;
  const float d = Half(in + 208);
  for (int i = 0; i < 256; ++i) {
    // 64 bytes hold the low bits of 128 numbers, low nibbles first.
    const int low = (in[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 0xF;
    const int q = low | TwoBits(in + 128, i) << 4;
    const float scale = d * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
    out[i] = scale * static_cast<float>(q - 32);
  }
}

// f16 d, u4 step[32]: d × steps[step]
void IQ4_NL(BlockBytes in, float* out) {
  const float d = Half(in);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kIq4Steps[Nibble(in + 2, i)]);
}

// f16 d, u2 high[8], u4 low[8], u4 step[256]; groups of 32: d × (scale - 32) × steps[step]
void IQ4_XS(BlockBytes in, float* out) {
  const float d = Half(in);
  const uint32_t high = U16(in + 2);
  for (int group = 0; group < 8; ++group) {
    const int low = (in[4 + group / 2] >> (group % 2 * 4)) & 0xF;
    const int scale = low | static_cast<int>((high >> (group * 2)) & 3) << 4;
    const float step = d * static_cast<float>(scale - 32);
    const BlockBytes packed = in + 8 + group * 16;
    for (int i = 0; i < 32; ++i) {
      out[group * 32 + i] = step * static_cast<float>(kIq4Steps[Nibble(packed, i)]);
    }
  }
}

// u8 e, f4 q[32]: 2^(e - 127) × q
void MXFP4(BlockBytes in, float* out) {
  const int exponent = in[0] - 128;  // one less, because the values are doubled
  // 2^-127 and 2^-128 are subnormal floats.
  const float scale = exponent >= -126 ? std::bit_cast<float>((exponent + 127U) << 23)
                                       : std::bit_cast<float>(0x200000U << in[0]);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(kE2m1Steps[Nibble(in + 1, i)]);
}

BlockFunction FunctionOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return F32;
    case DType::kF16:
      return F16;
    case DType::kBF16:
      return BF16;
    case DType::kF8E4M3:
      return F8;
    case DType::kQ8_0:
      return Q8_0;
    case DType::kQ4_0:
      return Q4_0;
    case DType::kQ4_1:
      return Q4_1;
    case DType::kQ5_0:
      return Q5_0;
    case DType::kQ5_1:
      return Q5_1;
    case DType::kQ2_K:
      return Q2_K;
    case DType::kQ3_K:
      return Q3_K;
    case DType::kQ4_K:
      return Q4_K;
    case DType::kQ5_K:
      return Q5_K;
    case DType::kQ6_K:
      return Q6_K;
    case DType::kIQ4_NL:
      return IQ4_NL;
    case DType::kIQ4_XS:
      return IQ4_XS;
    case DType::kMXFP4:
      return MXFP4;
    default:
      return nullptr;
  }
}

}  // namespace

bool CanDequantize(DType dtype) {
  return FunctionOf(dtype) != nullptr;
}

Status Dequantize(DType dtype, std::span<const std::byte> data, std::span<float> out) {
  const DTypeInfo& info = InfoOf(dtype);
  const BlockFunction function = FunctionOf(dtype);
  if (function == nullptr) {
    return Fail(Code::kUnavailable, "{} cannot be dequantised by this build", info.name);
  }
  const size_t blocks = data.size() / info.block_bytes;
  if (data.size() % info.block_bytes != 0 || out.size() != blocks * info.block_elements) {
    return Fail(Code::kInvalid, "{} bytes of {} do not hold {} numbers", data.size(), info.name,
                out.size());
  }
  const auto* in = reinterpret_cast<BlockBytes>(data.data());
  for (size_t block = 0; block < blocks; ++block) {
    function(in + block * info.block_bytes, out.data() + block * info.block_elements);
  }
  return {};
}

}  // namespace pie
