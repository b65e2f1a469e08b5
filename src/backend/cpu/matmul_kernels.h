// Inside of matmul: the work of one thread at each level. Not for other files.
#pragma once

#include <span>

#include "backend/cpu/matmul.h"

namespace pie::cpu::matmul {

// What every kernel gets: the matrix, one range of it, and where results go.
struct Output {
  MatMulRange range;
  float* y;  // [rows of x, y_stride]
  size_t y_stride;
};

void QuantizedScalar(const PackedMatrix& w, const QuantizedRows& x, const Output& out);
void QuantizedAvx2(const PackedMatrix& w, const QuantizedRows& x, const Output& out);
void QuantizedAvx512Vnni(const PackedMatrix& w, const QuantizedRows& x, const Output& out);

void FloatScalar(const PackedMatrix& w, const FloatRows& x, const Output& out);
void FloatAvx2(const PackedMatrix& w, const FloatRows& x, const Output& out);
void FloatAvx512(const PackedMatrix& w, const FloatRows& x, const Output& out);

inline std::span<const Outlier> OutliersOf(const QuantizedRows& x, uint32_t row) {
  return std::span(x.outliers).subspan(size_t{row} * x.outliers_a_row(), x.outliers_a_row());
}

// Outputs of a panel that exist: 16, or fewer in the last.
inline uint32_t LanesOf(const PackedMatrix& w, uint32_t panel) {
  const uint32_t left = w.rows() - panel * kPanelRows;
  return left < kPanelRows ? left : kPanelRows;
}

// Block layouts of repack.h. An unsigned weight stands for (weight - kOffset) × scale, or, with
// minima, weight × scale + minimum.
template <DType kType>
struct Format {
  static constexpr bool kNibbles = kType == DType::kQ4_0 || kType == DType::kQ4_1;
  static constexpr bool kHasMin = kType == DType::kQ4_1;
  static constexpr int kOffsetShift = kType == DType::kQ8_0 ? 7 : 3;  // offset = 1 << this
  static constexpr uint32_t kValueBytes = kNibbles ? 256 : 512;
  static constexpr uint32_t kScaleAt = kValueBytes;
  static constexpr uint32_t kMinAt = kValueBytes + 32;
  static constexpr uint32_t kBytes = kValueBytes + (kHasMin ? 64 : 32);
};

// Calls f.operator()<kType>() for the type of a quantised matrix.
template <class F>
void WithFormat(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kQ4_0:
      return f.template operator()<DType::kQ4_0>();
    case DType::kQ4_1:
      return f.template operator()<DType::kQ4_1>();
    default:
      return f.template operator()<DType::kQ8_0>();
  }
}

// The same for float matrices.
template <class F>
void WithFloatFormat(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32:
      return f.template operator()<DType::kF32>();
    case DType::kBF16:
      return f.template operator()<DType::kBF16>();
    default:
      return f.template operator()<DType::kF16>();
  }
}

}  // namespace pie::cpu::matmul
