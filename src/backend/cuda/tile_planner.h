// TilePlanner: cuts a batch's attention into tiles, each some rows that read some keys together.
// Rows of several members that begin with the same pages share tiles of these. Long ranges of keys
// are cut into tiles of their own, whose partial results are merged, so that every multiprocessor
// has work.
//
// Owner: the StepBuilder. It runs on any machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/cuda/kernels/step.h"

namespace pie::cuda {

struct StepShape {
  uint32_t page_tokens = 0;
  uint32_t vocab = 0;
  uint32_t group = 0;  // query heads per key head
  uint32_t kv_heads = 0;
  uint32_t large_lines = 0;  // lines of a large tile
  uint32_t processors = 0;
  uint32_t max_parts = 0;  // room for partial results
  uint32_t max_members = 0;
  // If set: a row's keys are cut at multiples of this number alone, and its partial results have
  // the order of their keys, whatever else is in the batch. A multiple of the key block.
  uint32_t fixed_cut = 0;
};

struct TileList {
  std::vector<AttentionTile> small;
  std::vector<AttentionTile> large;
  std::vector<TileRow> rows;    // of the tiles
  std::vector<RowParts> parts;  // [rows of the batch]: the partial results of a row, if it has any
};

class TilePlanner {
 public:
  explicit TilePlanner(const StepShape& shape) : shape_(shape) {}

  // `limits` are the keys that each row of the batch may see; `row_masks` is kNone for rows without
  // a mask.
  TileList Plan(const Batch& batch, std::span<const uint32_t> limits,
                std::span<const uint32_t> row_masks);

 private:
  struct Part;  // a member's rows, or rows of several members, over a range of keys
  struct Prefix {
    uint32_t keys = 0;  // multiple of the key block
    std::vector<uint32_t> members;
  };

  bool IsFew(const Batch::Member& member) const;
  void FindPrefixes(const Batch& batch);
  std::vector<Part> PartsOf(const Batch& batch);
  // The most keys of a tile.
  uint32_t SmallCut(const std::vector<Part>& parts) const;
  uint32_t LargeCut(const std::vector<Part>& parts) const;
  TileList PlanCut(const std::vector<Part>& parts) const;
  TileList PlanFixed(const std::vector<Part>& parts) const;

  const StepShape shape_;
  std::span<const uint32_t> limits_;  // of the batch that is planned, as row_masks_
  std::span<const uint32_t> row_masks_;
  std::vector<Prefix> prefixes_;
  std::vector<uint32_t> shared_keys_;  // [members]: keys that shared tiles cover
};

}  // namespace pie::cuda
