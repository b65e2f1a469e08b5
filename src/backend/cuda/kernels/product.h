// Products of few rows with a large matrix, y = x · Wᵀ, in bfloat16 with sums in float. The matrix
// is read once per group of rows, by 16-byte loads that go straight from memory to the tensor
// cores' registers; the kernel's speed is that of the memory. Any number of rows works; from some
// tens of rows on, blas.h is faster.
//
// W is [n, k], k a multiple of 8. Rows of x and W begin at multiples of 16 bytes. W may be packed
// (packed.h): then its scales are applied to sums in float.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/packed.h"
#include "backend/cuda/kernels/runtime.h"

namespace pie::cuda {

// How the sums are written.
enum class ProductOutput : uint8_t {
  kFloat,  // y[row][i] = sum, float
  kAdd,    // y[row][i] += sum, float
  // y[row][j] = activation(gate, up), bfloat16. Rows of W come in groups of 16: 8 of gate, then the
  // 8 of up with the same numbers. y has n / 2 columns.
  kGated,
  kBf16,  // y[row][i] = sum, bfloat16
};

enum class GateKind : uint8_t { kSilu, kGeluTanh, kClampedSwiglu };

// Rows that one expert computes: entries [first, first + rows) of a list sorted by expert.
struct ExpertTile {
  uint32_t expert;
  uint32_t first;
  uint32_t rows;
};
inline constexpr uint32_t kExpertTileRows = 8;

struct Product {
  const void* w = nullptr;  // [n, k] bfloat16 or packed; with experts, that for each
  WeightKind kind = WeightKind::kBf16;
  const void* scales = nullptr;  // of packed weights
  // w is written by an earlier kernel, so it is not read ahead (launch.cuh).
  bool fresh = false;
  const void* x = nullptr;  // [rows, x_stride] bfloat16
  void* y = nullptr;        // [rows, y_stride]
  uint32_t n = 0;
  uint32_t k = 0;
  uint32_t rows = 0;
  uint32_t x_stride = 0;  // in numbers
  uint32_t y_stride = 0;
  ProductOutput output = ProductOutput::kFloat;
  GateKind gate = GateKind::kSilu;
  const float* bias = nullptr;  // [n], with experts [experts, n]; null: none

  // Experts: blocks of rows take their matrix from a tile. Row i of the sorted list reads row
  // x_rows[i] of x (null: row i) and writes row i of y. Tiles from *tile_count on are not run.
  const ExpertTile* tiles = nullptr;
  const uint32_t* tile_count = nullptr;
  uint32_t max_tiles = 0;
  const uint32_t* x_rows = nullptr;
};

void RunProduct(const Product& product, Stream stream);
// The same for packed weights. RunProduct chooses this itself.
void RunPackedProduct(const Product& product, Stream stream);

// Unpacks a matrix to bfloat16, [n, k], k a multiple of 8.
void RunUnpack(WeightKind kind, const void* data, const void* scales, uint32_t n, uint32_t k,
               void* out, Stream stream);

}  // namespace pie::cuda
