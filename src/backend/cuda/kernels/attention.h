// Attention of a batch's rows to the keys and values in their pages, by tensor cores.
//
// A block takes a tile (step.h): the lines (rows × query heads) of one key head that read the same
// keys, up to 16 in a small tile and 64 or 128 in a large one. So the heads of a group share the
// keys that they load, and so do rows of different sequences with a common prefix. Long sequences
// are cut into several tiles, whose partial results RunMergeParts merges.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/layer.h"
#include "backend/cuda/kernels/runtime.h"
#include "backend/cuda/kernels/step.h"

namespace pie::cuda {

inline constexpr uint32_t kSmallTileLines = 16;
inline constexpr uint32_t kKeyBlock = 64;
inline constexpr uint32_t kMaxHeadStride = 256;
// Lines of a large tile, for heads of this size.
inline constexpr uint32_t LargeTileLines(uint32_t head_stride) {
  return head_stride <= 128 ? 128 : 64;
}

struct Attention {
  const StepHeader* step = nullptr;
  KvShape kv;
  const void* q = nullptr;  // [rows, heads × head_stride] bfloat16
  void* out = nullptr;      // the same
  uint32_t heads = 0;
  float scale = 0;
  float softcap = 0;             // 0: none
  uint32_t window = 0;           // keys that a row sees, its own included; 0: all
  const float* sinks = nullptr;  // [heads]; null: none
  float* parts = nullptr;        // [parts, heads, head_stride]
  float* part_logs = nullptr;    // [parts, heads]: log2 of the sum of weights
  // All lines of the pages (DescribeLines), in the host's memory during the launch. Null: the lines
  // are not copied in boxes.
  const MatrixMap* kv_lines = nullptr;
  // A row's result does not depend on the size of its tile: sums have one order in all kernels.
  bool fixed_order = false;
};

// For Attention::kv_lines: the lines of `pages` pages as one matrix. False: the device copies no
// boxes of it, because of its kind, or because the keys of a page are no whole boxes.
bool DescribeLines(const KvShape& kv, uint64_t pages, MatrixMap* map);

// Both run on every multiprocessor and take tiles in turn. A step without tiles of one size may
// skip that launch.
void RunSmallTiles(const Attention& attention, int processors, Stream stream);
void RunLargeTiles(const Attention& attention, int processors, Stream stream);
// RunLargeTiles on Hopper, for heads of up to 128 numbers. It chooses this itself.
void RunHopperTiles(const Attention& attention, int processors, Stream stream);
// RunSmallTiles for keys and values in fp8. RunSmallTiles calls it by itself.
void RunFp8Tiles(const Attention& attention, int processors, Stream stream);
// `rows`: of the launch.
void RunMergeParts(const Attention& attention, uint32_t rows, Stream stream);

}  // namespace pie::cuda
