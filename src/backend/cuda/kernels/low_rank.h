// Products of adapters: y += scale · B · (A · x), by each row's own adapter, with the noise of zo
// (model/adapter/zo.h). A row's result does not depend on the others.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/runtime.h"
#include "backend/cuda/kernels/step.h"

namespace pie::cuda {

inline constexpr uint32_t kMaxRank = 256;

// One matrix's part of an adapter, in device memory. An adapter is an array of them, [layers,
// slots], and after these the embedding and the head (model/adapter/adapter.h). Rank 0: it changes
// nothing.
struct LowRankMatrix {
  // [rank, x's columns] bfloat16, 0 where x is padding; of the embedding, a column is a token
  const void* a = nullptr;
  const void* b = nullptr;  // [out, rank] bfloat16
  uint32_t rank = 0;
  float scale = 0;
};

// A target of adapters, and where number i of its output is in y.
struct LowRankTarget {
  enum class Order : uint32_t {
    kPlain,       // column i
    kHeads,       // heads of head_size numbers, head_stride apart
    kNeighbours,  // the same, with numbers j and j + head_size / 2 of a head beside each other
    kGrouped,     // groups of 8, 16 apart
  };

  uint32_t slot = 0;  // of the adapter; for an expert's matrix, that of expert 0
  uint32_t out = 0;
  uint32_t first_column = 0;
  Order order = Order::kPlain;
};

// How the rows of a product are numbered. Each is computed under the adapter of a row of the batch.
enum class LowRankRows : uint32_t {
  kBatch,   // row i is row i of the batch
  kReads,   // row i is row read_rows[first_read + i] of the batch
  kPairs,   // row i / used, under its expert routed[i]; the output is row places[i]
  kTokens,  // row i of the batch, whose input is its token alone
};

struct LowRankProduct {
  static constexpr uint32_t kTargets = 3;

  const StepHeader* step = nullptr;
  const void* x = nullptr;  // [rows, x_stride] bfloat16
  void* y = nullptr;        // [rows, y_stride], float or bfloat16
  uint32_t rows = 0;
  uint32_t x_stride = 0;  // in numbers, a multiple of 8
  uint32_t y_stride = 0;
  bool to_bf16 = false;
  uint32_t layer = 0;
  uint32_t slots = 0;  // of a layer
  uint32_t head_size = 0;
  uint32_t head_stride = 0;
  uint32_t targets = 0;
  LowRankTarget of[kTargets];
  uint32_t strips = 1;  // a block computes such a part of the outputs
  float factor = 1;     // of the part that is added

  LowRankRows kind = LowRankRows::kBatch;
  uint32_t first_read = 0;           // kReads
  const uint32_t* routed = nullptr;  // kPairs: [batch rows, used]
  const uint32_t* places = nullptr;  // the same
  uint32_t used = 1;
  bool x_is_sorted = false;          // kPairs: the input is row places[i] of x, not row i / used
  const uint32_t* chosen = nullptr;  // kTokens: the tokens of earlier batches
  uint32_t vocab = 0;
};

// The step has adapters.
void RunLowRank(const LowRankProduct& product, Stream stream);

}  // namespace pie::cuda
