// Products of adapters: y += scale · B · (A · x), by each row's own adapter, with the noise of zo
// (model/adapter/zo.h). A row's result does not depend on the others.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/runtime.h"
#include "backend/cuda/kernels/step.h"

namespace pie::cuda {

inline constexpr uint32_t kMaxRank = 256;

// One matrix's part of an adapter, in device memory. An adapter is an array of them, [layers,
// targets] (model/adapter/adapter.h). Rank 0: it changes nothing.
struct LowRankMatrix {
  const void* a = nullptr;  // [rank, x's columns] bfloat16, 0 where x is padding
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

  uint32_t target = 0;  // of the adapter
  uint32_t out = 0;
  uint32_t first_column = 0;
  Order order = Order::kPlain;
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
  uint32_t layer_targets = 0;  // of an adapter
  uint32_t head_size = 0;
  uint32_t head_stride = 0;
  uint32_t targets = 0;
  LowRankTarget of[kTargets];
};

// The step has adapters.
void RunLowRank(const LowRankProduct& product, Stream stream);

}  // namespace pie::cuda
