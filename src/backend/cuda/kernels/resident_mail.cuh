// Letters between the blocks of resident_step.cu: numbers that come with the phase that wrote them.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/meetings.cuh"

namespace pie::cuda {

__device__ inline uint32_t NumberOf(uint64_t letter) {
  return static_cast<uint32_t>(letter);
}
__device__ inline bool HasCome(const uint64_t (&letters)[2], uint32_t phase) {
  return static_cast<uint32_t>(letters[0] >> 32) == phase &&
         static_cast<uint32_t>(letters[1] >> 32) == phase;
}
// Waits for pairs of letters: those for which at(i) is not null. All that are missing are looked at
// together, because a look takes longest. Calls take(i, first, second) with their numbers.
template <uint32_t kPairs, class At, class Take>
__device__ void AwaitPairs(uint32_t phase, At&& at, Take&& take) {
  uint64_t letters[kPairs][2];
  uint32_t missing = (1U << kPairs) - 1;
  while (missing != 0) {
#pragma unroll
    for (uint32_t i = 0; i < kPairs; ++i) {
      const Mail* const from = at(i);
      if (from == nullptr) missing &= ~(1U << i);
      if ((missing >> i & 1U) != 0) LookAt(from, letters[i]);
    }
#pragma unroll
    for (uint32_t i = 0; i < kPairs; ++i) {
      if ((missing >> i & 1U) == 0 || !HasCome(letters[i], phase)) continue;
      missing &= ~(1U << i);
      take(i, NumberOf(letters[i][0]), NumberOf(letters[i][1]));
    }
    if (missing != 0) WaitALittle();
  }
}

// Reads `pairs` pairs of letters that follow one another, and calls take(pair, first, second).
template <uint32_t kAtOnce, class Take>
__device__ void ReadMail(const Mail* from, uint32_t pairs, uint32_t phase, Take&& take) {
  for (uint32_t first = threadIdx.x; first < pairs; first += kAtOnce * kConsumers) {
    const auto pair = [&](uint32_t i) { return first + i * kConsumers; };
    AwaitPairs<kAtOnce>(
        phase, [&](uint32_t i) { return pair(i) < pairs ? from + 2 * pair(i) : nullptr; },
        [&](uint32_t i, uint32_t a, uint32_t b) { take(pair(i), a, b); });
  }
}

}  // namespace pie::cuda
