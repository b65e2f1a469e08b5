// The functions of kernels/instructions.cuh, for the emulator. They do what the PTX manual says
// about the instructions.
#pragma once

#include <cuda_bf16.h>

#include <bit>
#include <cstdint>

#include "backend/cuda/emulator/emulator.h"
#include "model/half.h"

#define PIE_DYNAMIC_SHARED(type, name) \
  type* const name = reinterpret_cast<type*>(::pie::cuda::emulator::SharedMemory())
#define PIE_HAS_WGMMA 1
#define PIE_HAS_E4M3 0

namespace pie::cuda {

inline void WaitForInputs() {}
inline void LetNextStart() {}
inline void BringToCache(const void* from, uint32_t bytes) {
  // A read shows addresses that do not exist.
  const auto* const at = static_cast<const volatile char*>(from);
  if (bytes > 0) static_cast<void>(at[0] + at[bytes - 1]);
}

inline void BringNear(const void* from) {
  static_cast<void>(*static_cast<const volatile char*>(from));
}

inline uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const char*>(pointer) - emulator::SharedMemory());
}

inline void Raise(uint32_t* flag) {
  *flag = 1;
}
inline void AwaitRaised(const uint32_t* flag) {
  while (*flag == 0) emulator::Yield();
}

inline void CopyAsync(uint32_t to, const void* from, bool real) {
  emulator::CopyLater(to, from, real);
}
inline void CommitCopies() {
  emulator::CommitLater();
}
template <int kLeft>
void AwaitCopies() {
  emulator::CopyNow(kLeft);
}

inline float Bf16At(const char* at) {
  __nv_bfloat16 number;
  std::memcpy(&number, at, 2);
  return __bfloat162float(number);
}
inline float Bf16Of(uint32_t pair, int index) {
  return __bfloat162float({static_cast<uint16_t>(pair >> (16 * index))});
}

// Lanes 8i … 8i + 7 hold the addresses of the rows of matrix i, of 8 × 8 numbers.
inline void LoadMatrices(uint32_t (&r)[4], uint32_t address) {
  const auto rows = emulator::Exchange(address);
  const unsigned lane = emulator::Lane();
  for (unsigned i = 0; i < 4; ++i) {
    std::memcpy(&r[i], emulator::SharedMemory() + rows[i * 8 + lane / 4] + lane % 4 * 4, 4);
  }
}
inline void LoadTransposed(uint32_t (&r)[4], uint32_t address) {
  const auto rows = emulator::Exchange(address);
  const unsigned lane = emulator::Lane();
  for (unsigned i = 0; i < 4; ++i) {
    r[i] = 0;
    for (unsigned j = 0; j < 2; ++j) {
      uint16_t number = 0;
      std::memcpy(&number, emulator::SharedMemory() + rows[i * 8 + lane % 4 * 2 + j] + lane / 4 * 2,
                  2);
      r[i] |= static_cast<uint32_t>(number) << (16 * j);
    }
  }
}

inline float Exp2(float x) {
  return std::exp2(x);
}

inline uint32_t MultiplyAddPairs(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d = 0;
  for (int i = 0; i < 2; ++i) {
    const double exact = double{Bf16Of(a, i)} * Bf16Of(b, i) + Bf16Of(c, i);
    d |= uint32_t{__float2bfloat16(static_cast<float>(exact)).bits} << (16 * i);
  }
  return d;
}

inline float HalfToFloat(uint16_t half) {
  return pie::HalfToFloat(half);
}

// The first or second f16 of a pair.
inline float HalfOf(uint32_t pair, int index) {
  return pie::HalfToFloat(static_cast<uint16_t>(pair >> (16 * index)));
}
inline uint32_t PackHalves(float low, float high) {
  const auto bits = [](float x) { return std::bit_cast<uint16_t>(static_cast<_Float16>(x)); };
  return bits(low) | static_cast<uint32_t>(bits(high)) << 16;
}
inline uint32_t MultiplyHalves(uint32_t a, uint32_t b) {
  return PackHalves(HalfOf(a, 0) * HalfOf(b, 0), HalfOf(a, 1) * HalfOf(b, 1));
}

// number(pair, index) is a number of an operand.
template <class Number>
void MultiplyTiles(const Number& number, float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                   uint32_t a3, uint32_t b0, uint32_t b1) {
  struct Operands {
    uint32_t a[4];
    uint32_t b[2];
  };
  const auto of = emulator::Exchange(Operands{{a0, a1, a2, a3}, {b0, b1}});
  const unsigned lane = emulator::Lane();
  for (unsigned quarter = 0; quarter < 4; ++quarter) {  // of the 16 numbers along k
    const Operands rows = of[lane / 4 * 4 + quarter];
    for (unsigned n = 0; n < 2; ++n) {
      const Operands column = of[(lane % 4 * 2 + n) * 4 + quarter];
      for (unsigned half = 0; half < 2; ++half) {
        for (int i = 0; i < 2; ++i) {
          const float b = number(column.b[half], i);
          d[n] += number(rows.a[2 * half], i) * b;
          d[2 + n] += number(rows.a[2 * half + 1], i) * b;
        }
      }
    }
  }
}
inline void Mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                uint32_t b1) {
  MultiplyTiles(Bf16Of, d, a0, a1, a2, a3, b0, b1);
}
inline void MmaHalves(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                      uint32_t b0, uint32_t b1) {
  MultiplyTiles(HalfOf, d, a0, a1, a2, a3, b0, b1);
}

}  // namespace pie::cuda
