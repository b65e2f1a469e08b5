#include "backend/cpu/matmul/matmul.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/matmul/matmul_kernels.h"
#include "base/result.h"
#include "model/half.h"

namespace pie::cpu {
namespace matmul {
namespace {

float HalfAt(const std::byte* p) {
  uint16_t half;
  std::memcpy(&half, p, sizeof half);
  return HalfToFloat(half);
}

// The contribution of one block to an output.
float BlockProduct(const PanelLayout& layout, const std::byte* block, uint32_t lane,
                   const QuantizedRows& x, size_t at) {
  const int8_t* const values = x.values.data() + at * kQuantBlock;
  float product = 0;
  const uint32_t columns = kQuantBlock / layout.scales;
  for (uint32_t part = 0; part < layout.scales; ++part) {
    int32_t dot = 0;
    int32_t x_sum = 0;
    for (uint32_t i = part * columns; i < (part + 1) * columns; ++i) {
      dot += (QuantAt(layout, block, lane, i) - layout.offset) * values[i];
      x_sum += values[i];
    }
    const uint32_t at_lane = 32 * part + 2 * lane;
    product += HalfAt(block + layout.scale_at() + at_lane) * x.scales[at] * static_cast<float>(dot);
    if (!layout.has_min || layout.whole_min()) continue;
    product +=
        HalfAt(block + layout.min_at() + at_lane) * (x.scales[at] * static_cast<float>(x_sum));
  }
  return product;
}

// The contribution of the minima of a row of W to an output.
float MinimaProduct(const PanelLayout& layout, const std::byte* panel, uint32_t lane,
                    const QuantizedRows& x, uint32_t row) {
  int32_t dot = 0;
  for (uint32_t b = 0; b < x.blocks(); ++b) {
    dot += MultipleAt(layout, panel, x.blocks(), b, lane) *
           x.whole_sums[size_t{row} * x.whole_stride() + b];
  }
  return UnitAt(layout, panel, x.blocks(), lane) * x.sum_units[row] * static_cast<float>(dot);
}

}  // namespace

// The reference: one output at a time, straight from the definition in panel_format.h.
void QuantizedScalar(const PackedMatrix& w, const QuantizedRows& x, const Output& out) {
  const PanelLayout layout = LayoutOf(w.format());
  for (uint32_t row = out.range.row_begin; row < out.range.row_end; ++row) {
    for (uint32_t panel = out.range.panel_begin; panel < out.range.panel_end; ++panel) {
      for (uint32_t lane = 0; lane < LanesOf(w, panel); ++lane) {
        float sum = 0;
        const std::byte* block = w.Panel(panel);
        for (uint32_t b = 0; b < x.blocks(); ++b, block += layout.bytes()) {
          sum += BlockProduct(layout, block, lane, x, size_t{row} * x.blocks() + b);
        }
        if (layout.whole_min()) sum += MinimaProduct(layout, w.Panel(panel), lane, x, row);
        for (const Outlier& outlier : OutliersOf(x, row)) {
          sum += outlier.value * w.Weight(panel * kPanelRows + lane, outlier.column);
        }
        out.At(row, panel)[lane] = sum;
      }
    }
  }
}

void FloatScalar(const PackedMatrix& w, const FloatRows& x, const Output& out) {
  std::vector<float> weights(w.columns());
  const uint32_t end = std::min(out.range.panel_end * kPanelRows, w.rows());
  for (uint32_t n = out.range.panel_begin * kPanelRows; n < end; ++n) {
    w.UnpackRow(n, weights);
    for (uint32_t row = out.range.row_begin; row < out.range.row_end; ++row) {
      float sum = 0;
      for (uint32_t k = 0; k < x.columns; ++k) sum += weights[k] * x.data[row * x.stride + k];
      out.At(row, out.range.panel_begin)[n - out.range.panel_begin * kPanelRows] = sum;
    }
  }
}

}  // namespace matmul

void MatMulPart(CpuLevel level, const PackedMatrix& w, const QuantizedRows& x,
                const MatMulRange& range, const PartOutput& to) {
  PIE_CHECK(w.quantized() && w.columns() == x.columns && range.row_end <= x.rows &&
            range.panel_end <= w.panels());
  const matmul::Output out{range, to};
  if (level >= CpuLevel::kAvx512Vnni) return matmul::QuantizedAvx512Vnni(w, x, out);
  if (level == CpuLevel::kAvxVnni) return matmul::QuantizedAvxVnni(w, x, out);
  if (level >= CpuLevel::kAvx2) return matmul::QuantizedAvx2(w, x, out);
  matmul::QuantizedScalar(w, x, out);
}

void MatMulPart(CpuLevel level, const PackedMatrix& w, const FloatRows& x, const MatMulRange& range,
                const PartOutput& to) {
  PIE_CHECK(!w.quantized() && w.columns() == x.columns && range.row_end <= x.rows &&
            range.panel_end <= w.panels());
  const matmul::Output out{range, to};
  if (level >= CpuLevel::kAvx512) return matmul::FloatAvx512(w, x, out);
  if (level >= CpuLevel::kAvx2) return matmul::FloatAvx2(w, x, out);
  matmul::FloatScalar(w, x, out);
}

bool TakesSplitRows(CpuLevel level, const PackedMatrix& w) {
  return level >= CpuLevel::kAmxBf16 && w.columns() % kTileColumns == 0 &&
         (w.format() == PanelFormat::kBF16 || w.format() == PanelFormat::kF16);
}

void MatMulPart(const PackedMatrix& w, const SplitRows& x, const MatMulRange& range,
                const PartOutput& to) {
  PIE_CHECK(w.columns() == x.columns && range.row_end <= x.rows && range.panel_end <= w.panels());
  matmul::SplitAmx(w, x, {range, to});
}

}  // namespace pie::cpu
