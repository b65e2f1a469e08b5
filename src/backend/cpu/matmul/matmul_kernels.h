// Internal to matmul: the kernels of each level, which compute one part on the calling thread.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/matmul/matmul.h"

namespace pie::cpu::matmul {

// The part to compute and the place of its results.
struct Output {
  MatMulRange range;
  PartOutput to;

  float* At(uint32_t row, uint32_t panel) const {
    return to.y + (row - range.row_begin) * to.stride +
           size_t{panel - range.panel_begin} * kPanelRows;
  }
};

void QuantizedScalar(const PackedMatrix& w, const QuantizedRows& x, const Output& out);
void QuantizedAvx2(const PackedMatrix& w, const QuantizedRows& x, const Output& out);
void QuantizedAvxVnni(const PackedMatrix& w, const QuantizedRows& x, const Output& out);
void QuantizedAvx512Vnni(const PackedMatrix& w, const QuantizedRows& x, const Output& out);

void FloatScalar(const PackedMatrix& w, const FloatRows& x, const Output& out);
void FloatAvx2(const PackedMatrix& w, const FloatRows& x, const Output& out);
void FloatAvx512(const PackedMatrix& w, const FloatRows& x, const Output& out);
void SplitAmx(const PackedMatrix& w, const SplitRows& x, const Output& out);

inline std::span<const Outlier> OutliersOf(const QuantizedRows& x, uint32_t row) {
  return std::span(x.outliers).subspan(size_t{row} * x.outliers_per_row(), x.outliers_per_row());
}

// Number of rows in a panel: 16, or fewer in the last one.
inline uint32_t LanesOf(const PackedMatrix& w, uint32_t panel) {
  const uint32_t left = w.rows() - panel * kPanelRows;
  return left < kPanelRows ? left : kPanelRows;
}

// Calls f.operator()<kFormat>() for the format of a quantised matrix.
template <class F>
void WithFormat(PanelFormat format, F&& f) {
  switch (format) {
    case PanelFormat::kU4:
      return f.template operator()<PanelFormat::kU4>();
    case PanelFormat::kU4Min:
      return f.template operator()<PanelFormat::kU4Min>();
    case PanelFormat::kU4Min2:
      return f.template operator()<PanelFormat::kU4Min2>();
    case PanelFormat::kU5Min:
      return f.template operator()<PanelFormat::kU5Min>();
    case PanelFormat::kU6Two:
      return f.template operator()<PanelFormat::kU6Two>();
    case PanelFormat::kIq4:
      return f.template operator()<PanelFormat::kIq4>();
    case PanelFormat::kE2m1:
      return f.template operator()<PanelFormat::kE2m1>();
    default:
      return f.template operator()<PanelFormat::kU8>();
  }
}

// The same for float matrices.
template <class F>
void WithFloatFormat(PanelFormat format, F&& f) {
  switch (format) {
    case PanelFormat::kF32:
      return f.template operator()<PanelFormat::kF32>();
    case PanelFormat::kBF16:
      return f.template operator()<PanelFormat::kBF16>();
    default:
      return f.template operator()<PanelFormat::kF16>();
  }
}

}  // namespace pie::cpu::matmul
