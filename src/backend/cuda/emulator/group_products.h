// The functions of kernels/group_products.cuh, for the emulator.
#pragma once

#include <cstdint>

#include "backend/cuda/emulator/instructions.h"

namespace pie::cuda {

inline void BeginGroupProducts() {}
inline void CommitGroupProducts() {}
template <int kLeft>
void AwaitGroupProducts() {}
inline void ShowToGroupProducts() {}
inline void SyncGroup(uint32_t) {
  emulator::SyncWarpGroup();
}
inline void AwaitTurn(uint32_t) {}
inline void PassTurn(uint32_t) {}
template <int kRegisters>
void GiveRegisters() {}
template <int kRegisters>
void TakeRegisters() {}
template <size_t kTiles>
void Settle(float (&)[kTiles][4]) {}
template <size_t kCount>
void Hold(uint32_t (&)[kCount][4]) {}
template <size_t kCount>
void KeepUntilHere(const uint32_t (&)[kCount][4], bool) {}

// Parts of an operand's description (OperandAt).
struct Operand {
  explicit Operand(uint64_t description)
      : address(static_cast<uint32_t>(description & 0x3FFF) << 4),
        next(static_cast<uint32_t>(description >> 16 & 0x3FFF) << 4),
        eight(static_cast<uint32_t>(description >> 32 & 0x3FFF) << 4) {}

  // Number k of row i, where k runs along the rows …
  uint32_t AlongAt(uint32_t i, uint32_t k) const {
    return address + i / 8 * eight + i % 8 * 128 + k * 2;
  }
  float Along(uint32_t i, uint32_t k) const { return At(AlongAt(i, k)); }
  // … or across them.
  float Across(uint32_t i, uint32_t k) const {
    return At(address + i / 64 * next + i % 64 * 2 + k / 8 * eight + k % 8 * 128);
  }
  static const char* PlaceOf(uint32_t byte) {
    return emulator::SharedMemory() + (byte ^ (byte >> 3 & 0x70U));
  }
  static float At(uint32_t byte) { return Bf16At(PlaceOf(byte)); }

  uint32_t address;
  uint32_t next;
  uint32_t eight;
};

template <size_t kTiles>
void GroupScores(float (&d)[kTiles][4], uint64_t a, uint64_t b, bool add) {
  emulator::SyncWarpGroup();
  const Operand rows(a);
  const Operand columns(b);
  const unsigned lane = emulator::Lane();
  const unsigned first = threadIdx.x / 32 % 4 * 16 + lane / 4;
  for (unsigned n = 0; n < kTiles; ++n) {
    for (unsigned i = 0; i < 4; ++i) {
      float sum = add ? d[n][i] : 0.0F;
      for (unsigned k = 0; k < 16; ++k) {
        sum += rows.Along(first + i / 2 * 8, k) * columns.Along(n * 8 + lane % 4 * 2 + i % 2, k);
      }
      d[n][i] = sum;
    }
  }
}

// `number_of` returns a number of a pair in registers, `at` a number in shared memory.
template <class Number, class At, size_t kTiles>
void GroupScoresOf(const Number& number_of, const At& at, float (&d)[kTiles][4], uint32_t a0,
                   uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b, bool add) {
  struct Registers {
    uint32_t a[4];
  };
  emulator::SyncWarpGroup();
  const auto of = emulator::Exchange(Registers{{a0, a1, a2, a3}});
  const Operand columns(b);
  const unsigned lane = emulator::Lane();
  for (unsigned n = 0; n < kTiles; ++n) {
    for (unsigned i = 0; i < 4; ++i) {
      float sum = add ? d[n][i] : 0.0F;
      for (unsigned k = 0; k < 16; ++k) {
        const uint32_t pair = of[lane / 4 * 4 + k % 8 / 2].a[k / 8 * 2 + i / 2];
        sum += number_of(pair, static_cast<int>(k % 2)) *
               at(columns.AlongAt(n * 8 + lane % 4 * 2 + i % 2, k));
      }
      d[n][i] = sum;
    }
  }
}

template <size_t kTiles>
void GroupScores(float (&d)[kTiles][4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                 uint64_t b, bool add) {
  GroupScoresOf(Bf16Of, Operand::At, d, a0, a1, a2, a3, b, add);
}
template <size_t kTiles>
void GroupScoresOfHalves(float (&d)[kTiles][4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                         uint64_t b, bool add) {
  const auto at = [](uint32_t byte) {
    uint16_t half = 0;
    std::memcpy(&half, Operand::PlaceOf(byte), sizeof half);
    return pie::HalfToFloat(half);
  };
  GroupScoresOf(HalfOf, at, d, a0, a1, a2, a3, b, add);
}

template <size_t kTiles>
void GroupOutputs(float (&d)[kTiles][4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                  uint64_t b) {
  struct Registers {
    uint32_t a[4];
  };
  emulator::SyncWarpGroup();
  const auto of = emulator::Exchange(Registers{{a0, a1, a2, a3}});
  const Operand columns(b);
  const unsigned lane = emulator::Lane();
  for (unsigned n = 0; n < kTiles; ++n) {
    for (unsigned i = 0; i < 4; ++i) {
      for (unsigned k = 0; k < 16; ++k) {
        const uint32_t pair = of[lane / 4 * 4 + k % 8 / 2].a[k / 8 * 2 + i / 2];
        d[n][i] +=
            Bf16Of(pair, static_cast<int>(k % 2)) * columns.Across(n * 8 + lane % 4 * 2 + i % 2, k);
      }
    }
  }
}

}  // namespace pie::cuda
