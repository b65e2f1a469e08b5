// y [m, n] = x [m, k] · W [n, k]ᵀ: nearly all of a forward pass.
//
// Few rows are bound by reading W, many rows by arithmetic; one tile kernel serves both, and W is
// read once for all rows that fit the cache. Each output is summed in one order at a given level,
// whatever m, the tile or the number of threads, so a row's result does not depend on what else is
// in the batch.
//
// A part of the work runs on the calling thread; linear.h spreads parts over threads. Shapes are
// the caller's to get right (checked).
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/machine/cpu_features.h"
#include "backend/cpu/matmul/repack.h"
#include "backend/cpu/matmul/split_rows.h"
#include "backend/cpu/quant/quantize.h"

namespace pie::cpu {

// Float rows, `stride` numbers apart. A view.
struct FloatRows {
  const float* data = nullptr;
  size_t stride = 0;
  uint32_t rows = 0;
  uint32_t columns = 0;
};

// A part of the work: output rows of x and panels of W, ends excluded.
struct MatMulRange {
  uint32_t row_begin, row_end;
  uint32_t panel_begin, panel_end;
};

// Where the outputs of a part go, from its first row and panel on.
struct PartOutput {
  float* y;
  size_t stride;
  // Memory that is written soon after y, by the same rows and panels: its lines are asked for
  // meanwhile. Null: those of y are.
  const float* later = nullptr;
  size_t later_stride = 0;

  // Of a y that has all rows and panels.
  static PartOutput In(float* y, size_t stride, const MatMulRange& range) {
    return {y + range.row_begin * stride + size_t{range.panel_begin} * kPanelRows, stride};
  }
};

// For w.quantized().
void MatMulPart(CpuLevel level, const PackedMatrix& w, const QuantizedRows& x,
                const MatMulRange& range, const PartOutput& to);

// For the rest: F16, BF16, F32.
void MatMulPart(CpuLevel level, const PackedMatrix& w, const FloatRows& x, const MatMulRange& range,
                const PartOutput& to);

// By tiles of kAmxBf16, for F16 and BF16 whose columns fill them: several times as fast.
bool TakesSplitRows(CpuLevel level, const PackedMatrix& w);
void MatMulPart(const PackedMatrix& w, const SplitRows& x, const MatMulRange& range,
                const PartOutput& to);

}  // namespace pie::cpu
