// The functions of kernels/bulk_copies.cuh, for the emulator. A copy happens when its barrier is
// waited for, as late as it may; until then, its place in shared memory has NaN.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstring>

#include "backend/cuda/emulator/instructions.h"
#include "backend/cuda/kernels/runtime.h"

namespace pie::cuda {

inline void InitBarrier(uint64_t* barrier, uint32_t arrivals) {
  emulator::InitBarrier(barrier, arrivals);
}
inline void Arrive(uint64_t* barrier) {
  emulator::Arrive(barrier, 0);
}
inline void ArriveExpecting(uint64_t* barrier, uint32_t bytes) {
  emulator::Arrive(barrier, bytes);
}
inline void AwaitPhase(uint64_t* barrier, uint32_t parity) {
  while (!emulator::PhaseHasEnded(barrier, parity)) emulator::Yield();
}

inline void BulkCopy(void* to_shared, const void* from, uint32_t bytes, uint64_t* barrier) {
  std::memset(to_shared, 0xFF, bytes);
  emulator::ArriveLater(barrier, bytes, [=] { std::memcpy(to_shared, from, bytes); });
}

inline void CopyBox(void* to_shared, const MatrixMap& map, uint32_t column, uint32_t row,
                    uint64_t* barrier) {
  CUtensorMap matrix;
  std::memcpy(&matrix, &map, sizeof matrix);
  const uint32_t bytes = matrix.box_rows * 128;
  std::memset(to_shared, 0xFF, bytes);
  emulator::ArriveLater(barrier, bytes, [=] {
    const uint32_t place = SharedAddress(to_shared);
    for (uint32_t i = 0; i < matrix.box_rows * 64; ++i) {
      const uint64_t from_row = uint64_t{row} + i / 64;
      const uint64_t from_column = uint64_t{column} + i % 64;
      const uint32_t to = place + i * 2;
      char* const at = emulator::SharedMemory() + (to ^ (to >> 3 & 0x70U));
      if (from_row < matrix.rows && from_column < matrix.columns) {
        std::memcpy(at, matrix.data + from_row * matrix.row_bytes + from_column * 2, 2);
      } else {
        std::memset(at, 0, 2);
      }
    }
  });
}

}  // namespace pie::cuda
