#include <algorithm>
#include <bit>
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
  const int32_t* first_sums;
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

// What is taken off a stored number; steps are made unsigned.
constexpr int OffsetOf(const PanelLayout& layout) {
  return layout.stepped ? 128 : layout.offset;
}

// Vector v of a block, as unsigned bytes.
template <PanelFormat kFormat>
PIE_AVX512_VNNI inline __m512i Expand(const std::byte* block, uint32_t v) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  if constexpr (!kLayout.nibbles()) return _mm512_loadu_si512(block + 64 * v);
  const __m512i both = _mm512_loadu_si512(block + 64 * (v / 2));
  const __m512i low = _mm512_set1_epi8(0xF);
  __m512i q = _mm512_and_si512(v % 2 == 0 ? both : _mm512_srli_epi16(both, 4), low);
  if constexpr (kLayout.stepped) {
    __m128i steps = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kLayout.steps->data()));
    steps = _mm_xor_si128(steps, _mm_set1_epi8(-128));
    q = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(steps), q);
  }
  const std::byte* const high = block + kLayout.high_at();
  if constexpr (kLayout.bits == 5) {
    uint64_t bits;
    std::memcpy(&bits, high + 8 * v, sizeof bits);
    q = _mm512_mask_add_epi8(q, bits, q, _mm512_set1_epi8(16));
  }
  if constexpr (kLayout.bits == 6) {
    const __m512i plane = _mm512_loadu_si512(high + 64 * (v / 4));
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(v % 4 * 2));
    const __m512i two = _mm512_and_si512(_mm512_srl_epi16(plane, shift), _mm512_set1_epi8(3));
    q = _mm512_or_si512(q, _mm512_slli_epi16(two, 4));
  }
  return q;
}

// One column of a panel, as floats.
template <PanelFormat kFormat>
PIE_AVX512_VNNI inline __m512 Column(const std::byte* panel, uint32_t column) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  const std::byte* const block = panel + size_t{column / kQuantBlock} * kLayout.bytes();
  const uint32_t i = column % kQuantBlock;
  const uint32_t v = kLayout.nibbles() ? i % 16 / 4 * 2 + i / 16 : i / 4;
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(8 * (i % 4)));
  const __m512i q =
      _mm512_and_si512(_mm512_srl_epi32(Expand<kFormat>(block, v), shift), _mm512_set1_epi32(0xFF));
  const uint32_t part = kLayout.scales == 2 ? i / 16 * 32 : 0;
  const auto* const scales = reinterpret_cast<const uint16_t*>(block + kLayout.scale_at() + part);
  const __m512 scale = LoadHalf512(scales);
  if constexpr (kLayout.has_min) {
    const __m512 min = LoadHalf512(scales + (kLayout.min_at() - kLayout.scale_at()) / 2);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(q), scale, min);
  }
  const __m512i offset = _mm512_set1_epi32(OffsetOf(kLayout));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(q, offset)), scale);
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

  template <PanelFormat kFormat>
  PIE_AVX512_VNNI void Unpack(const std::byte* panel, size_t panel_bytes, uint32_t panels) {
    const size_t numbers = columns_.size() * 2 * kPanelRows;
    if (memory_.size() < numbers + kPanelRows) memory_.resize(numbers + kPanelRows);
    float* const to = data();
    for (size_t i = 0; i < columns_.size(); ++i) {
      for (uint32_t p = 0; p < panels; ++p) {
        _mm512_store_ps(to + (2 * i + p) * kPanelRows,
                        Column<kFormat>(panel + p * panel_bytes, columns_[i]));
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

// Adds one block to the sums of a tile. With two scales a row, there are two dot products.
template <PanelFormat kFormat, int kRows, int kPanels>
PIE_AVX512_VNNI inline void AddBlock(const QuantizedTile& t, uint32_t b,
                                     __m512 (&sum)[kRows][kPanels]) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  constexpr int kParts = kLayout.scales;
  const std::byte* const block = t.panel + size_t{b} * kLayout.bytes();
  const size_t columns = size_t{t.blocks} * kQuantBlock;
  const int8_t* const x = t.values + size_t{b} * kQuantBlock;
  __m512i dot[kRows][kPanels][kParts];
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PIE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      __m512i start = _mm512_setzero_si512();
      if constexpr (!kLayout.has_min) {
        const size_t at = size_t(r) * t.blocks + b;
        const int32_t x_sum = kParts == 1 ? t.sums[at]
                              : part == 0 ? t.first_sums[at]
                                          : t.sums[at] - t.first_sums[at];
        constexpr int kShift = std::countr_zero(static_cast<uint32_t>(OffsetOf(kLayout)));
        start = _mm512_sub_epi32(start, _mm512_slli_epi32(_mm512_set1_epi32(x_sum), kShift));
      }
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) dot[r][p][part] = start;
    }
  }
  PIE_UNROLL
  for (int v = 0; v < 8; v += 2) {  // both halves of the same bytes, while they are in registers
    __m512i even[kPanels];
    __m512i odd[kPanels];
    PIE_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      even[p] = Expand<kFormat>(block + p * t.panel_bytes, v);
      odd[p] = Expand<kFormat>(block + p * t.panel_bytes, v + 1);
    }
    const int even_column = kLayout.nibbles() ? 2 * v : 4 * v;
    const int odd_column = kLayout.nibbles() ? 16 + 2 * v : 4 * v + 4;
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512i even_x = Broadcast4(x + r * columns + even_column);
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        dot[r][p][0] = _mm512_dpbusd_epi32(dot[r][p][0], even[p], even_x);
      }
      const __m512i odd_x = Broadcast4(x + r * columns + odd_column);
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        __m512i& to = dot[r][p][kParts - 1];
        to = _mm512_dpbusd_epi32(to, odd[p], odd_x);
      }
    }
  }
  PIE_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    PIE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const auto* const at = reinterpret_cast<const uint16_t*>(block + p * t.panel_bytes +
                                                               kLayout.scale_at() + 32 * part);
      const __m512 scale = LoadHalf512(at);
      PIE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512 x_scale = _mm512_set1_ps(t.scales[size_t(r) * t.blocks + b]);
        sum[r][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r][p][part]),
                                    _mm512_mul_ps(scale, x_scale), sum[r][p]);
      }
      if constexpr (kLayout.has_min) {
        const __m512 min = LoadHalf512(at + (kLayout.min_at() - kLayout.scale_at()) / 2);
        PIE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const size_t i = size_t(r) * t.blocks + b;
          float x_sum = t.real_sums[i];
          if constexpr (kParts == 2) {
            const int32_t q = part == 0 ? t.first_sums[i] : t.sums[i] - t.first_sums[i];
            x_sum = t.scales[i] * static_cast<float>(q);
          }
          sum[r][p] = _mm512_fmadd_ps(min, _mm512_set1_ps(x_sum), sum[r][p]);
        }
      }
    }
  }
}

template <PanelFormat kFormat, int kRows, int kPanels>
PIE_AVX512_VNNI void RunTile(const QuantizedTile& t) {
  constexpr uint32_t kBytes = LayoutOf(kFormat).bytes();
  __m512 sum[kRows][kPanels];
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PIE_UNROLL
    for (int p = 0; p < kPanels; ++p) sum[r][p] = _mm512_setzero_ps();
    // Stores wait in line for their cache lines, which are far away in a long y: ask early.
    PIE_UNROLL
    for (int p = 0; p < kPanels; ++p) __builtin_prefetch(t.y + r * t.y_stride + p * kPanelRows, 1);
  }
  for (uint32_t b = 0; b < t.blocks; ++b) {
    if (kRows > 1 && t.next != nullptr) {
      // With more than one row there is too much to compute for hardware to look far ahead.
      for (int p = 0; p < kPanels; ++p) {
        const auto* const ahead =
            reinterpret_cast<const char*>(t.next + p * t.panel_bytes + size_t{b} * kBytes);
        PIE_UNROLL
        for (uint32_t at = 0; at < kBytes; at += 64) {
          _mm_prefetch(ahead + at, _MM_HINT_T1);
        }
      }
    }
    AddBlock<kFormat, kRows, kPanels>(t, b, sum);
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
                             : Column<kFormat>(t.panel + p * t.panel_bytes, t.outliers[at].column);
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

template <PanelFormat kFormat, int kPanels>
void RunRows(QuantizedTile tile, uint32_t rows) {
  while (rows > 0) {
    uint32_t done = 1;
    if (rows >= kMaxRows) {
      RunTile<kFormat, kMaxRows, kPanels>(tile);
      done = kMaxRows;
    } else if (rows >= 4) {
      RunTile<kFormat, 4, kPanels>(tile);
      done = 4;
    } else if (rows >= 2) {
      RunTile<kFormat, 2, kPanels>(tile);
      done = 2;
    } else {
      RunTile<kFormat, 1, kPanels>(tile);
    }
    tile.values += size_t{done} * tile.blocks * kQuantBlock;
    tile.scales += size_t{done} * tile.blocks;
    tile.outliers += size_t{done} * tile.outliers_a_row;
    tile.outlier_slots += size_t{done} * tile.outliers_a_row;
    tile.sums += size_t{done} * tile.blocks;
    tile.first_sums += size_t{done} * tile.blocks;
    tile.real_sums += size_t{done} * tile.blocks;
    tile.y += done * tile.y_stride;
    tile.next = nullptr;
    rows -= done;
  }
}

template <PanelFormat kFormat>
void RunRange(const PackedMatrix& w, const QuantizedRows& x, const Output& out) {
  const MatMulRange& range = out.range;
  const size_t first_block = size_t{range.row_begin} * x.blocks();
  const uint32_t rows = range.row_end - range.row_begin;
  thread_local OutlierColumns columns;
  const bool shared = rows >= kSharedRows;
  if (shared) columns.Plan(x, range.row_begin, range.row_end);
  for (uint32_t panel = range.panel_begin; panel < range.panel_end;) {
    // Two scales a row take the registers of the second panel.
    constexpr uint32_t kWidest = LayoutOf(kFormat).scales == 2 ? 1 : 2;
    const uint32_t panels = rows > 1 && panel + 1 < range.panel_end ? kWidest : 1;
    if (shared) columns.Unpack<kFormat>(w.Panel(panel), w.panel_bytes(), panels);
    const QuantizedTile tile{
        .panel = w.Panel(panel),
        .next = panel + 2 * panels <= w.panels() ? w.Panel(panel + panels) : nullptr,
        .panel_bytes = w.panel_bytes(),
        .blocks = x.blocks(),
        .lanes = LanesOf(w, panel + panels - 1),
        .values = x.values.data() + first_block * kQuantBlock,
        .scales = x.scales.data() + first_block,
        .sums = x.sums.data() + first_block,
        .first_sums = x.first_sums.data() + first_block,
        .real_sums = x.real_sums.data() + first_block,
        .outliers = x.outliers.data() + size_t{range.row_begin} * x.outliers_a_row(),
        .outliers_a_row = x.outliers_a_row(),
        .outlier_slots = columns.slots(),
        .outlier_columns = columns.data(),
        .y = out.y + range.row_begin * out.y_stride + panel * size_t{kPanelRows},
        .y_stride = out.y_stride,
    };
    panels == 2 ? RunRows<kFormat, kWidest>(tile, rows) : RunRows<kFormat, 1>(tile, rows);
    panel += panels;
  }
}

}  // namespace

void QuantizedAvx512Vnni(const PackedMatrix& w, const QuantizedRows& x, const Output& out) {
  WithFormat(w.format(), [&]<PanelFormat kFormat>() { RunRange<kFormat>(w, x, out); });
}

}  // namespace pie::cpu::matmul
