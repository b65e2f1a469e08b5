// y [m, n] = x [m, k] · W [n, k]ᵀ, which takes nearly all the time of a forward pass.
//
// Few rows are bound by reading W, many rows by arithmetic. The same kernels serve both: W is read
// once for all rows that fit the cache. At a given level, each output is summed in one fixed order
// for any m, tile and number of threads, so a row's result does not depend on the rest of the
// batch.
//
// These functions compute one part on the calling thread; linear.h distributes parts over threads.
// The caller must pass consistent shapes; they are checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/machine/cpu_features.h"
#include "backend/cpu/matmul/repack.h"
#include "backend/cpu/matmul/split_rows.h"
#include "backend/cpu/quant/quantize.h"

namespace pie::cpu {

// A view of float rows that are `stride` numbers apart.
struct FloatRows {
  const float* data = nullptr;
  size_t stride = 0;
  uint32_t rows = 0;
  uint32_t columns = 0;
};

// A part of the work: rows of x and panels of W, ends excluded.
struct MatMulRange {
  uint32_t row_begin, row_end;
  uint32_t panel_begin, panel_end;
};

// The place of a part's outputs; `y` points at its first row and panel.
struct PartOutput {
  float* y;
  size_t stride;
  // Memory for the same rows and panels that is written soon after y. Its cache lines are
  // prefetched instead of those of y, if it is not null.
  const float* later = nullptr;
  size_t later_stride = 0;

  // Returns the place of a part within a y that has all rows and panels.
  static PartOutput In(float* y, size_t stride, const MatMulRange& range) {
    return {y + range.row_begin * stride + size_t{range.panel_begin} * kPanelRows, stride};
  }
};

// For quantised matrices (w.quantized()).
void MatMulPart(CpuLevel level, const PackedMatrix& w, const QuantizedRows& x,
                const MatMulRange& range, const PartOutput& to);

// For the other formats: F16, BF16, F32.
void MatMulPart(CpuLevel level, const PackedMatrix& w, const FloatRows& x, const MatMulRange& range,
                const PartOutput& to);

// For F16 and BF16 matrices whose columns fill AMX tiles, at level kAmxBf16: several times as fast.
bool TakesSplitRows(CpuLevel level, const PackedMatrix& w);
void MatMulPart(const PackedMatrix& w, const SplitRows& x, const MatMulRange& range,
                const PartOutput& to);

}  // namespace pie::cpu
