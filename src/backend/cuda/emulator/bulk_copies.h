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
  const uint32_t row_bytes = matrix.box_columns * matrix.number_bytes;
  const uint32_t bytes = matrix.box_rows * row_bytes;
  std::memset(to_shared, 0xFF, bytes);
  emulator::ArriveLater(barrier, bytes, [=] {
    const uint32_t place = SharedAddress(to_shared);
    const uint32_t size = matrix.number_bytes;
    for (uint32_t i = 0; i < matrix.box_rows * matrix.box_columns; ++i) {
      const uint64_t from_row = uint64_t{row} + i / matrix.box_columns;
      const uint64_t from_column = uint64_t{column} + i % matrix.box_columns;
      const uint32_t to = place + i * size;
      char* const at =
          emulator::SharedMemory() + (matrix.is_permuted != 0 ? to ^ (to >> 3 & 0x70U) : to);
      if (from_row < matrix.rows && from_column < matrix.columns) {
        std::memcpy(at, matrix.data + from_row * matrix.row_bytes + from_column * size, size);
      } else {
        std::memset(at, 0, size);
      }
    }
  });
}

}  // namespace pie::cuda
