// The shared memory of a block of resident_step.cu, by offsets in bytes.
#pragma once

#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/packed.h"
#include "backend/cuda/kernels/resident_step.h"

namespace pie::cuda {

inline constexpr int kWarps = 8;  // that compute; another one fetches weights
inline constexpr uint32_t kConsumers = kWarps * 32;
// A stage of the ring: 16 rows of W and this many columns. Rows of bfloat16 are apart by 64 bytes
// more, so that eight threads that read two rows meet in no bank.
inline constexpr uint32_t kStageColumns = 512;
inline constexpr uint32_t kStageRowBytes = kStageColumns * 2 + 64;
inline constexpr uint32_t kStageBytes = kTileRows * kStageRowBytes;
inline constexpr uint32_t kMostStages = 16;
inline constexpr uint32_t kLeastStages = 4;
inline constexpr uint32_t kResidentKeys = 64;  // keys at a time
inline constexpr uint32_t kResidentWeightBytes = kResidentKeys * 2 + 16;
inline constexpr uint32_t kBlockBytes = 227 * 1024;

struct ResidentLayout {
  uint32_t barriers = 0;  // [2][kMostStages]: stages that have come, stages that are free
  uint32_t phases = 0;    // [2] ResidentPhase
  uint32_t scratch = 0;   // 64 floats
  uint32_t sums = 0;      // [2][kWarps][16] float
  uint32_t x = 0;         // [hidden] float
  uint32_t input = 0;     // [widest_input] bfloat16; attention uses the same memory:
  uint32_t keys = 0;      // [kResidentKeys][key_bytes]
  uint32_t values = 0;    // [kResidentKeys][value_bytes]
  uint32_t queries = 0;   // [8][key_bytes]
  uint32_t head_scratch = 0;  // [kWarps][head_stride] float
  uint32_t scores = 0;        // [8][kResidentKeys] float
  uint32_t weights = 0;       // [8][kResidentWeightBytes]
  uint32_t shrinks = 0;       // [8] float
  uint32_t fresh = 0;         // [2][fresh_bytes]: this step's key and value
  uint32_t raw = 0;           // fp8: [2][kResidentKeys][line_bytes]
  uint32_t ring = 0;          // [stages][kStageBytes]
  uint32_t stages = 0;
  uint32_t bytes = 0;
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  uint32_t fresh_bytes = 0;
};

inline ResidentLayout LayoutOf(const ResidentStep& step) {
  ResidentLayout room;
  uint32_t at = 0;
  const auto take = [&](uint32_t bytes) { return (at += (bytes + 127) / 128 * 128) - (bytes + 127) / 128 * 128; };
  room.barriers = take(2 * kMostStages * 8);
  room.phases = take(2 * sizeof(ResidentPhase));
  room.scratch = take(64 * 4);
  room.sums = take(2 * kWarps * kTileRows * 4);
  room.x = take(step.hidden * 4);
  const uint32_t shared_from = at;
  room.input = take((step.widest_input + kSpan) * 2);
  const uint32_t input_end = at;
  at = shared_from;
  const uint32_t line = step.kv.head_stride * 2;
  room.key_bytes = (line + 127) / 128 * 128 + 64;
  room.value_bytes = (line + 31) / 32 * 32 + 16;
  room.fresh_bytes = (step.kv.line_bytes() + 31) / 16 * 16;
  room.keys = take(kResidentKeys * room.key_bytes);
  room.values = take(kResidentKeys * room.value_bytes);
  room.queries = take(8 * room.key_bytes);
  room.head_scratch = take(kWarps * step.kv.head_stride * 4);
  room.scores = take(8 * kResidentKeys * 4);
  room.weights = take(8 * kResidentWeightBytes);
  room.shrinks = take(8 * 4);
  room.fresh = take(2 * room.fresh_bytes);
  if (step.kv.fp8) room.raw = take(2 * kResidentKeys * step.kv.line_bytes());
  room.ring = at = max(at, input_end);
  room.stages = at > kBlockBytes ? 0 : min(kMostStages, (kBlockBytes - at) / kStageBytes);
  room.bytes = at + room.stages * kStageBytes;
  return room;
}

}  // namespace pie::cuda
