#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/simd.h"

namespace pie::cpu::matmul {
namespace {

// A tile of kRows × (kPanels × 16) outputs. Its float sums and byte dot products stay in registers:
// 6 × 2 of each, and what is left of 32 holds weights and broadcasts.
constexpr int kMaxRows = 6;
// Tiles of at least so many rows find the columns of their outliers unpacked.
constexpr int kSharedRows = 4;

struct QuantizedTile {
  const std::byte* panel;
  const std::byte* next;  // panel to fetch meanwhile, or null
  size_t panel_bytes;
  uint32_t blocks;
  uint32_t lanes;        // of the last panel
  const int8_t* values;  // of the first row, as the three below
  const float* scales;
  const int32_t* sums;
  const float* real_sums;
  const Outlier* outliers;
  uint32_t outliers_a_row;
  const uint32_t* outlier_slots;  // [rows, outliers_a_row]: into outlier_columns
  const float* outlier_columns;   // [slots, 2, 16]
  float* y;
  size_t y_stride;
};

// Four bytes of a row in every lane.
PIE_AVX512_VNNI inline __m512i Broadcast4(const int8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return _mm512_set1_epi32(four);
}

// One column of a panel, as floats.
template <DType kType>
PIE_AVX512_VNNI inline __m512 Column(const std::byte* panel, uint32_t column) {
  using F = Format<kType>;
  const std::byte* const block = panel + size_t{column / kQuantBlock} * F::kBytes;
  const uint32_t i = column % kQuantBlock;
  const uint32_t byte = F::kNibbles ? i % 16 : i;
  const __m512i four = _mm512_loadu_si512(block + 64 * (byte / 4));
  const uint32_t shift = 8 * (byte % 4) + (F::kNibbles && i >= 16 ? 4 : 0);
  const __m512i value =
      _mm512_and_si512(_mm512_srl_epi32(four, _mm_cvtsi32_si128(static_cast<int>(shift))),
                       _mm512_set1_epi32(F::kNibbles ? 0xF : 0xFF));
  const auto* const halves = reinterpret_cast<const uint16_t*>(block);
  const __m512 scale = LoadHalf512(halves + F::kScaleAt / 2);
  if constexpr (F::kHasMin) {
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(value), scale, LoadHalf512(halves + F::kMinAt / 2));
  }
  const __m512i offset = _mm512_set1_epi32(1 << F::kOffsetShift);
  return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(value, offset)), scale);
}

const float* UnpackedColumn(const QuantizedTile& t, uint32_t slot, int panel) {
  return t.outlier_columns + (size_t{slot} * 2 + panel) * kPanelRows;
}

// Columns of W that the outliers of some rows meet. Rows mostly have them in the same few, so each
// panel unpacks them once for all rows.
class OutlierColumns {
 public:
  void Plan(const QuantizedRows& x, uint32_t row_begin, uint32_t row_end) {
    constexpr uint32_t kNone = ~0U;
    if (slot_of_.size() < x.columns) slot_of_.resize(x.columns, kNone);
    columns_.clear();
    slots_.clear();
    for (uint32_t row = row_begin; row < row_end; ++row) {
      for (const Outlier& outlier : OutliersOf(x, row)) {
        uint32_t& slot = slot_of_[outlier.column];
        if (slot == kNone) {
          slot = static_cast<uint32_t>(columns_.size());
          columns_.push_back(outlier.column);
        }
        slots_.push_back(slot);
      }
    }
    for (uint32_t column : columns_) slot_of_[column] = kNone;
  }

  template <DType kType>
  PIE_AVX512_VNNI void Unpack(const std::byte* panel, size_t panel_bytes, uint32_t panels) {
    const size_t numbers = columns_.size() * 2 * kPanelRows;
    if (memory_.size() < numbers + kPanelRows) memory_.resize(numbers + kPanelRows);
    float* const to = data();
    for (size_t i = 0; i < columns_.size(); ++i) {
      for (uint32_t p = 0; p < panels; ++p) {
        _mm512_store_ps(to + (2 * i + p) * kPanelRows,
                        Column<kType>(panel + p * panel_bytes, columns_[i]));
      }
    }
  }

  const uint32_t* slots() const { return slots_.data(); }  // [rows, outliers_a_row]
  // 64-byte aligned.
  float* data() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (64 - address % 64) % 64 / sizeof(float);
  }

 private:
  std::vector<uint32_t> slot_of_;  // [columns]
  std::vector<uint32_t> columns_;
  std::vector<uint32_t> slots_;
  std::vector<float> memory_;  // [slots, 2, 16]
};

template <DType kType, int kRows, int kPanels>
PIE_AVX512_VNNI void RunTile(const QuantizedTile& t) {
  using F = Format<kType>;
  const __m512i low = _mm512_set1_epi8(0xF);
  const size_t columns = size_t{t.blocks} * kQuantBlock;
  __m512 sum[kRows][kPanels];
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PIE_UNROLL
    for (int p = 0; p < kPanels; ++p) sum[r][p] = _mm512_setzero_ps();
  }
  for (uint32_t b = 0; b < t.blocks; ++b) {
    const std::byte* const block = t.panel + size_t{b} * F::kBytes;
    const int8_t* const x = t.values + size_t{b} * kQuantBlock;
    if (kRows > 1 && t.next != nullptr) {
      // With more than one row there is too much to compute for hardware to look far ahead.
      for (int p = 0; p < kPanels; ++p) {
        const auto* const ahead =
            reinterpret_cast<const char*>(t.next + p * t.panel_bytes + size_t{b} * F::kBytes);
        PIE_UNROLL
        for (uint32_t at = 0; at < F::kBytes; at += 64) _mm_prefetch(ahead + at, _MM_HINT_T1);
      }
    }
    __m512i dot[kRows][kPanels];
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      __m512i start = _mm512_setzero_si512();
      if constexpr (!F::kHasMin) {
        const __m512i x_sum = _mm512_set1_epi32(t.sums[size_t(r) * t.blocks + b]);
        start = _mm512_sub_epi32(start, _mm512_slli_epi32(x_sum, F::kOffsetShift));
      }
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) dot[r][p] = start;
    }
    PIE_UNROLL
    for (int g = 0; g < 4; ++g) {
      __m512i w0[kPanels];  // columns 4g…          (bytes: 4·2g…)
      __m512i w1[kPanels];  // columns 16 + 4g…     (bytes: 4·(2g + 1)…)
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        const std::byte* const at = block + p * t.panel_bytes;
        if constexpr (F::kNibbles) {
          const __m512i both = _mm512_loadu_si512(at + 64 * g);
          w0[p] = _mm512_and_si512(both, low);
          w1[p] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
        } else {
          w0[p] = _mm512_loadu_si512(at + 128 * g);
          w1[p] = _mm512_loadu_si512(at + 128 * g + 64);
        }
      }
      const int x0 = F::kNibbles ? 4 * g : 8 * g;
      const int x1 = F::kNibbles ? 16 + 4 * g : 8 * g + 4;
      PIE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512i v0 = Broadcast4(x + r * columns + x0);
        PIE_UNROLL
        for (int p = 0; p < kPanels; ++p) dot[r][p] = _mm512_dpbusd_epi32(dot[r][p], w0[p], v0);
        const __m512i v1 = Broadcast4(x + r * columns + x1);
        PIE_UNROLL
        for (int p = 0; p < kPanels; ++p) dot[r][p] = _mm512_dpbusd_epi32(dot[r][p], w1[p], v1);
      }
    }
    PIE_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      const auto* const at = reinterpret_cast<const uint16_t*>(block + p * t.panel_bytes);
      const __m512 scale = LoadHalf512(at + F::kScaleAt / 2);
      PIE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512 x_scale = _mm512_set1_ps(t.scales[size_t(r) * t.blocks + b]);
        sum[r][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r][p]), _mm512_mul_ps(scale, x_scale),
                                    sum[r][p]);
      }
      if constexpr (F::kHasMin) {
        const __m512 min = LoadHalf512(at + F::kMinAt / 2);
        PIE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const __m512 x_sum = _mm512_set1_ps(t.real_sums[size_t(r) * t.blocks + b]);
          sum[r][p] = _mm512_fmadd_ps(min, x_sum, sum[r][p]);
        }
      }
    }
  }
  for (uint32_t i = 0; i < t.outliers_a_row; ++i) {
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const size_t at = size_t(r) * t.outliers_a_row + i;
      const __m512 value = _mm512_set1_ps(t.outliers[at].value);
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        const __m512 w = kRows >= kSharedRows
                             ? _mm512_load_ps(UnpackedColumn(t, t.outlier_slots[at], p))
                             : Column<kType>(t.panel + p * t.panel_bytes, t.outliers[at].column);
        sum[r][p] = _mm512_fmadd_ps(value, w, sum[r][p]);
      }
    }
  }
  PIE_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    const uint16_t mask = LaneMask(p + 1 == kPanels ? t.lanes : kPanelRows);
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      _mm512_mask_storeu_ps(t.y + r * t.y_stride + p * size_t{kPanelRows}, mask, sum[r][p]);
    }
  }
}

template <DType kType, int kPanels>
void RunRows(QuantizedTile tile, uint32_t rows) {
  while (rows > 0) {
    uint32_t done = 1;
    if (rows >= kMaxRows) {
      RunTile<kType, kMaxRows, kPanels>(tile);
      done = kMaxRows;
    } else if (rows >= 4) {
      RunTile<kType, 4, kPanels>(tile);
      done = 4;
    } else if (rows >= 2) {
      RunTile<kType, 2, kPanels>(tile);
      done = 2;
    } else {
      RunTile<kType, 1, kPanels>(tile);
    }
    tile.values += size_t{done} * tile.blocks * kQuantBlock;
    tile.scales += size_t{done} * tile.blocks;
    tile.outliers += size_t{done} * tile.outliers_a_row;
    tile.outlier_slots += size_t{done} * tile.outliers_a_row;
    tile.sums += size_t{done} * tile.blocks;
    tile.real_sums += size_t{done} * tile.blocks;
    tile.y += done * tile.y_stride;
    tile.next = nullptr;
    rows -= done;
  }
}

template <DType kType>
void RunRange(const PackedMatrix& w, const QuantizedRows& x, const Output& out) {
  const MatMulRange& range = out.range;
  const size_t first_block = size_t{range.row_begin} * x.blocks();
  const uint32_t rows = range.row_end - range.row_begin;
  thread_local OutlierColumns columns;
  const bool shared = rows >= kSharedRows;
  if (shared) columns.Plan(x, range.row_begin, range.row_end);
  for (uint32_t panel = range.panel_begin; panel < range.panel_end;) {
    const uint32_t panels = rows > 1 && panel + 1 < range.panel_end ? 2 : 1;
    if (shared) columns.Unpack<kType>(w.Panel(panel), w.panel_bytes(), panels);
    const QuantizedTile tile{
        .panel = w.Panel(panel),
        .next = panel + 2 * panels <= w.panels() ? w.Panel(panel + panels) : nullptr,
        .panel_bytes = w.panel_bytes(),
        .blocks = x.blocks(),
        .lanes = LanesOf(w, panel + panels - 1),
        .values = x.values.data() + first_block * kQuantBlock,
        .scales = x.scales.data() + first_block,
        .sums = x.sums.data() + first_block,
        .real_sums = x.real_sums.data() + first_block,
        .outliers = x.outliers.data() + size_t{range.row_begin} * x.outliers_a_row(),
        .outliers_a_row = x.outliers_a_row(),
        .outlier_slots = columns.slots(),
        .outlier_columns = columns.data(),
        .y = out.y + range.row_begin * out.y_stride + panel * size_t{kPanelRows},
        .y_stride = out.y_stride,
    };
    panels == 2 ? RunRows<kType, 2>(tile, rows) : RunRows<kType, 1>(tile, rows);
    panel += panels;
  }
}

// Sixteen weights of one column.
template <DType kType>
PIE_AVX512 inline __m512 LoadColumn(const std::byte* column) {
  if constexpr (kType == DType::kF32) return _mm512_loadu_ps(column);
  const auto* const halves = reinterpret_cast<const uint16_t*>(column);
  if constexpr (kType == DType::kF16) return LoadHalf512(halves);
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// Even and odd columns are summed apart, so that additions need not wait for one another.
template <DType kType, int kRows, int kPanels>
PIE_AVX512 void RunFloatTile(const std::byte* panel, size_t panel_bytes, const FloatRows& x,
                             float* y, size_t y_stride, uint32_t lanes) {
  constexpr size_t kColumnBytes = kType == DType::kF32 ? 64 : 32;
  __m512 sum[2][kRows][kPanels];
  PIE_UNROLL
  for (int odd = 0; odd < 2; ++odd) {
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) sum[odd][r][p] = _mm512_setzero_ps();
    }
  }
  uint32_t k = 0;
  for (; k + 2 <= x.columns; k += 2) {
    PIE_UNROLL
    for (int odd = 0; odd < 2; ++odd) {
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        const __m512 w = LoadColumn<kType>(panel + p * panel_bytes + (k + odd) * kColumnBytes);
        PIE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const __m512 value = _mm512_set1_ps(x.data[r * x.stride + k + odd]);
          sum[odd][r][p] = _mm512_fmadd_ps(w, value, sum[odd][r][p]);
        }
      }
    }
  }
  PIE_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    const uint16_t mask = LaneMask(p + 1 == kPanels ? lanes : kPanelRows);
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (k < x.columns) {
        const __m512 w = LoadColumn<kType>(panel + p * panel_bytes + k * kColumnBytes);
        sum[0][r][p] = _mm512_fmadd_ps(w, _mm512_set1_ps(x.data[r * x.stride + k]), sum[0][r][p]);
      }
      _mm512_mask_storeu_ps(y + r * y_stride + p * size_t{kPanelRows}, mask,
                            _mm512_add_ps(sum[0][r][p], sum[1][r][p]));
    }
  }
}

template <DType kType>
void RunFloatRange(const PackedMatrix& w, const FloatRows& x, const Output& out) {
  for (uint32_t panel = out.range.panel_begin; panel < out.range.panel_end;) {
    const uint32_t panels = panel + 1 < out.range.panel_end ? 2 : 1;
    const uint32_t lanes = LanesOf(w, panel + panels - 1);
    for (uint32_t row = out.range.row_begin; row < out.range.row_end;) {
      const uint32_t rows = out.range.row_end - row >= 4 ? 4 : 1;
      FloatRows from = x;
      from.data += row * x.stride;
      float* const y = out.y + row * out.y_stride + panel * size_t{kPanelRows};
      const auto run = panels == 2
                           ? (rows == 4 ? RunFloatTile<kType, 4, 2> : RunFloatTile<kType, 1, 2>)
                           : (rows == 4 ? RunFloatTile<kType, 4, 1> : RunFloatTile<kType, 1, 1>);
      run(w.Panel(panel), w.panel_bytes(), from, y, out.y_stride, lanes);
      row += rows;
    }
    panel += panels;
  }
}

}  // namespace

void QuantizedAvx512Vnni(const PackedMatrix& w, const QuantizedRows& x, const Output& out) {
  WithFormat(w.dtype(), [&]<DType kType>() { RunRange<kType>(w, x, out); });
}

void FloatAvx512(const PackedMatrix& w, const FloatRows& x, const Output& out) {
  WithFloatFormat(w.dtype(), [&]<DType kType>() { RunFloatRange<kType>(w, x, out); });
}

}  // namespace pie::cpu::matmul
