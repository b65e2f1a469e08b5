// AdapterRows: which rows of a batch use which adapter, and the products that this adds.
//
// Rows of one adapter are taken together, so that its weights are read once for several rows. A
// row's result does not depend on the others.
//
// Owned by one Transformer. It keeps its buffers, so only one call may run at a time; AddColumns
// and AddEmbedding may run on several threads, for different rows or columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/cpu/adapters/cpu_adapter.h"
#include "backend/cpu/layers/linear.h"
#include "backend/cpu/machine/cpu_features.h"
#include "backend/cpu/machine/thread_pool.h"

namespace pie::cpu {

// Rows [begin, end) of a gathered matrix belong to expert `expert`.
struct ExpertRows {
  uint32_t expert, begin, end;
};

class AdapterRows final : public GatedAddend {
 public:
  AdapterRows(CpuLevel level, ThreadPool& pool) : level_(level), pool_(pool) {}

  void Prepare(const Batch& batch);
  // From now on, only these rows of the batch are computed; they have moved together.
  void Keep(std::span<const uint32_t> rows);
  bool any() const { return !batch_.tiles.empty(); }

  // Adds to a row's embedding.
  void AddEmbedding(uint32_t row, uint32_t token, std::span<float> x);

  struct Output {
    AdapterTarget target;
    float* y;  // [rows, out], y_stride apart
    size_t y_stride;
  };
  // Adds the products of all rows of x, for targets that have the same input.
  void Add(uint32_t layer, const Activations& x, std::initializer_list<Output> outputs);

  // The same in two steps: Begin needs all of x, then AddColumns adds to any columns of gate and
  // up.
  void BeginGated(uint32_t layer, const Activations& x);
  void AddColumns(const GatedPart& part) const override;

  // Rows that were gathered: row i is row from[i] of the batch. `groups` cover all of them in
  // order. AddGathered then adds the products of such rows, each group with the matrices of its own
  // expert.
  void Gather(std::span<const uint32_t> from, std::span<const ExpertRows> groups);
  void AddGathered(uint32_t layer, const Activations& x, std::initializer_list<Output> outputs);

 private:
  static constexpr size_t kInputs = 3;  // targets that may share an input
  struct Use {
    const CpuAdapter* adapter = nullptr;
    int64_t seed = 0;  // 0: no noise
    float sigma = 0;
  };
  struct Tile {  // rows of one adapter and one expert
    uint32_t row[kLowRankRows] = {};
    uint32_t rows = 0;
    uint32_t expert = 0;
  };
  struct RowSet {
    std::vector<Use> uses;  // [rows]; empty if no row uses an adapter
    std::vector<Tile> tiles;
    AlignedVector<float> h;  // [rows, inputs, rank]
  };

  // Makes the tiles of one expert's rows.
  void AddTiles(RowSet& set, const ExpertRows& rows);
  void GrowBuffers(RowSet& set) const;
  float* H(RowSet& set, uint32_t row, size_t input) const {
    return &set.h[(row * kInputs + input) * h_stride_];
  }
  const float* H(const RowSet& set, uint32_t row, size_t input) const {
    return &set.h[(row * kInputs + input) * h_stride_];
  }
  void ShrinkTile(RowSet& set, const Tile& tile, uint32_t layer, AdapterTarget target, size_t input,
                  const Activations& x) const;
  // Adds to the columns [first, first + count) of some rows of one adapter.
  void ExpandRows(const RowSet& set, const Tile& tile, uint32_t layer, AdapterTarget target,
                  size_t input, uint32_t first, uint32_t count, const LowRankTile<float>& y) const;

  const CpuLevel level_;
  ThreadPool& pool_;
  RowSet batch_;
  RowSet gathered_;
  std::vector<uint32_t> order_;
  size_t h_stride_ = 0;
  uint32_t gated_layer_ = 0;
};

}  // namespace pie::cpu
