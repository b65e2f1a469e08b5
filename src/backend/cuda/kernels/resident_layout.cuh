// The shared memory of a block of resident_step.cu, by offsets in bytes.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/packed.h"
#include "backend/cuda/kernels/resident_step.h"

namespace pie::cuda {

inline constexpr int kWarps = 8;  // that compute; another one fetches weights
inline constexpr uint32_t kConsumers = kWarps * 32;
inline constexpr int kSharers = 4;  // warps that share a stage of weights
// A stage of the ring: 16 rows of W, in bfloat16 with this many columns. These rows are apart by 64
// bytes more, so that eight threads that read two rows meet in no bank.
inline constexpr uint32_t kStageColumns = 1024;
inline constexpr uint32_t kStageRowBytes = kStageColumns * 2 + 64;
inline constexpr uint32_t kStageBytes = kTileRows * kStageRowBytes;
// Spans of packed weights that a stage has.
constexpr uint32_t StageSpans(WeightKind kind) {
  return kStageBytes / (TileBytes(kind) + kTileRows * ScaleBytes(kind)) / kSharers * kSharers;
}
// Columns of a stage.
constexpr uint32_t StageColumns(WeightKind kind) {
  return kind == WeightKind::kBf16 ? kStageColumns : StageSpans(kind) * kSpan;
}
inline constexpr uint32_t kMostStages = 16;
inline constexpr uint32_t kLeastStages = 3;
inline constexpr uint32_t kKeysOfWarp = 16;    // at a time
inline constexpr uint32_t kResidentKeys = 80;  // keys at a time of models that are not plain
inline constexpr uint32_t kResidentWeightBytes = kResidentKeys * 2 + 16;
inline constexpr uint32_t kBlockBytes = 227 * 1024;
// Bytes of weights that are on their way to a block at a time. With more, every other access waits
// for them in the memory's queues.
inline constexpr uint32_t kBytesUnderWay = 64 * 1024;

// What a kernel can do. There are kernels for the most frequent models: all code of a layer runs
// once in a few microseconds, so that a kernel with more code waits for its instructions.
template <ResidentWeights kOf, bool kFp8, bool kIsPlain>
struct ResidentModel {
  static constexpr ResidentWeights kWeights = kOf;
  static constexpr bool kFp8Keys = kFp8;
  static constexpr bool kPlain = kIsPlain;
  static constexpr uint32_t kMailAtOnce =
      kIsPlain ? 4 : 8;  // pairs that a thread looks at together
};

struct ResidentLayout {
  uint32_t barriers = 0;      // [2][kMostStages]: stages that have come, stages that are free
  uint32_t phases = 0;        // [2] ResidentPhase
  uint32_t scratch = 0;       // 64 floats
  uint32_t sums = 0;          // [2][kWarps][16] float
  uint32_t x = 0;             // [hidden] float
  uint32_t input = 0;         // [widest_input] bfloat16; attention uses the same memory:
  uint32_t queries = 0;       // [8][key_bytes]
  uint32_t head_scratch = 0;  // [kWarps][head_stride] float
  uint32_t fresh = 0;         // [2][fresh_bytes]: this step's key and value
  // Plain models.
  uint32_t parts = 0;        // [kWarps][group][part_stride] float: the results of warps
  uint32_t part_scales = 0;  // [kWarps][8] float2: their best scores and sums of weights
  // All others.
  uint32_t scores = 0;   // [8][kResidentKeys] float
  uint32_t weights = 0;  // [8][kResidentWeightBytes]
  uint32_t shrinks = 0;  // [8] float
  uint32_t keys = 0;     // fp8: [block_keys][key_bytes], made bfloat16
  uint32_t values = 0;   // fp8: [block_keys][value_bytes]
  uint32_t merge = 0;    // the partial results of blocks, to be added
  // The angles, which are the same in all layers.
  uint32_t angles = 0;  // [tables][cosines, sines][pairs] float
  uint32_t ring = 0;    // [stages][kStageBytes]
  uint32_t stages = 0;
  uint32_t bytes = 0;
  uint32_t block_keys = 0;  // at a time: a multiple of 16
  uint32_t key_bytes = 0;
  uint32_t fresh_bytes = 0;
  uint32_t part_stride = 0;
  uint32_t value_bytes = 0;
};

inline bool IsPlain(const ResidentStep& step) {
  return step.plain && step.weights != ResidentWeights::kAny;
}

inline ResidentLayout LayoutOf(const ResidentStep& step) {
  ResidentLayout room;
  uint32_t at = 0;
  const auto take = [&](uint32_t bytes) {
    return (at += (bytes + 127) / 128 * 128) - (bytes + 127) / 128 * 128;
  };
  room.barriers = take(2 * kMostStages * 8);
  room.phases = take(2 * sizeof(ResidentPhase));
  room.scratch = take(64 * 4);
  room.sums = take(2 * kWarps * kTileRows * 4);
  room.x = take(step.hidden * 4);
  room.angles = take(step.tables * 2 * step.pairs * 4);
  const uint32_t shared_from = at;
  room.input = take((step.widest_input + kSpan) * 2);
  const uint32_t input_end = at;
  at = shared_from;
  room.key_bytes = (step.kv.head_stride * 2 + 127) / 128 * 128 + 64;
  room.fresh_bytes = (step.kv.line_bytes() + 31) / 16 * 16;
  room.queries = take(8 * room.key_bytes);
  room.head_scratch = take(kWarps * step.kv.head_stride * 4);
  room.fresh = take(2 * room.fresh_bytes);
  const uint32_t group = step.heads / step.kv.kv_heads;
  const uint32_t keys_of_stage = kStageBytes / step.kv.line_bytes() / kKeysOfWarp * kKeysOfWarp;
  if (IsPlain(step)) {
    room.block_keys = min(kWarps * kKeysOfWarp, keys_of_stage);
    room.part_stride = step.kv.head_stride + 4;
    room.parts = take(kWarps * group * room.part_stride * 4);
    room.part_scales = take(kWarps * 8 * 8);
  } else {
    room.block_keys = min(kResidentKeys, keys_of_stage);
    room.value_bytes = (step.kv.head_stride * 2 + 31) / 32 * 32 + 16;
    room.scores = take(8 * kResidentKeys * 4);
    room.weights = take(8 * kResidentWeightBytes);
    room.shrinks = take(8 * 4);
    if (step.kv.fp8) {
      room.keys = take(kResidentKeys * room.key_bytes);
      room.values = take(kResidentKeys * room.value_bytes);
    }
  }
  const uint32_t numbers = group * step.kv.head_stride / 2 + step.splits * (1 + group);
  room.merge = take(max(numbers * 8, step.hidden * 4));
  room.ring = at = max(at, input_end);
  room.stages = at > kBlockBytes ? 0 : min(kMostStages, (kBlockBytes - at) / kStageBytes);
  room.bytes = at + room.stages * kStageBytes;
  return room;
}

}  // namespace pie::cuda
