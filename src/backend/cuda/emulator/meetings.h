// The functions of kernels/meetings.cuh, for the emulator.
#pragma once

#include <cstdint>

#include "backend/cuda/emulator/bulk_copies.h"
#include "backend/cuda/kernels/resident_layout.cuh"

namespace pie::cuda {

inline uint32_t ResidentBlocks() {
  return 4;
}

template <class Kernel>
bool CanMeet(Kernel*, uint32_t, uint32_t shared_bytes) {
  return shared_bytes <= emulator::kSharedBytes;
}

template <class... Parameters, class... Arguments>
void LaunchTogether(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                    cudaStream_t, Arguments... arguments) {
  emulator::SubmitTogether(grid.x, block, shared_bytes,
                           [=] { kernel(static_cast<Parameters>(arguments)...); });
}

inline void MeetConsumers() {
  emulator::SyncFirst(kConsumers);
}

inline void Send(uint64_t* to, uint32_t number, uint32_t phase) {
  *to = uint64_t{phase} << 32 | number;
}
inline void SendPair(uint64_t* to, uint32_t first, uint32_t second, uint32_t phase) {
  Send(to, first, phase);
  Send(to + 1, second, phase);
}
inline void LookAt(const uint64_t* from, uint64_t (&letters)[2]) {
  letters[0] = from[0];
  letters[1] = from[1];
}
inline void WaitALittle() {
  emulator::Yield();
}

inline void ArriveFor(uint64_t* barrier, uint32_t arrivals) {
  for (uint32_t i = 0; i < arrivals; ++i) Arrive(barrier);
}

inline uint32_t Count(uint32_t* counter) {
  return (*counter)++;
}
inline void CountLater(uint32_t* counter) {
  ++*counter;
}
inline uint32_t CountOf(const uint32_t* counter) {
  return *counter;
}

inline void ShowToCopies() {}

}  // namespace pie::cuda
