#include "backend/cpu/matmul/matmul_avx512.h"

#include <bit>

#include "backend/cpu/matmul/matmul_avx512_outliers.h"

namespace pie::cpu::matmul {
namespace {

// A tile of kRows × (kPanels × 16) outputs. Its float sums and byte dot products stay in registers,
// 12 of each. With 12 rows or more, tiles are 12 × 1, so that one panel is expanded for all rows;
// otherwise they are up to 6 × 2. The remaining 8 of 32 registers hold weights and broadcasts.
constexpr uint32_t kTall = 12;
constexpr uint32_t kMaxRows = 6;
// Tiles of at least this many rows use outlier columns that are unpacked once per panel.
constexpr int kSharedRows = 4;

struct QuantizedTile {
  const std::byte* panel;
  const std::byte* next;  // panel to prefetch, or null
  size_t panel_bytes;
  uint32_t blocks;
  uint32_t lanes;  // rows in the last panel
  // Rows of x, beginning with `row`.
  const QuantizedRows* x;
  uint32_t row;
  OutlierColumns* outlier_columns;
  // true for the first tile of its panels, which unpacks them for all tiles after reading them
  bool unpack;
  uint32_t place;  // of the first panel in the unpacked columns
  float* y;
  size_t y_stride;
  const float* later;  // lines to prefetch: those of y, or of the next output
  size_t later_stride;
};

// Broadcasts four bytes of a row to every lane.
template <class T>
PIE_AVX512_VNNI inline __m512i Broadcast4(const T* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return _mm512_set1_epi32(four);
}

// Rows of x at the next block.
template <int kRows>
struct BlockRows {
  Rows<int8_t, kRows> values;
  Rows<float, kRows> scales;
  Rows<int32_t, kRows> sums;
  Rows<int32_t, kRows> first_sums;
};

// Adds one block to the sums of a tile. With two scales per row, there are two dot products. Must
// be inlined, as the functions below: otherwise the sums would not stay in registers.
template <PanelFormat kFormat, int kRows, int kPanels>
[[gnu::always_inline]] PIE_AVX512_VNNI inline void AddBlock(const std::byte* block,
                                                            size_t panel_bytes,
                                                            const BlockRows<kRows>& x,
                                                            __m512 (&sum)[kRows][kPanels]) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  constexpr int kParts = kLayout.scales;
  __m512i dot[kRows][kPanels][kParts];
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PIE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      __m512i start = _mm512_setzero_si512();
      if constexpr (!kLayout.has_min) {
        const int32_t x_sum = kParts == 1 ? *x.sums[r]
                              : part == 0 ? *x.first_sums[r]
                                          : *x.sums[r] - *x.first_sums[r];
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
      even[p] = Expand<kFormat>(block + p * panel_bytes, v);
      odd[p] = Expand<kFormat>(block + p * panel_bytes, v + 1);
    }
    const int even_column = kLayout.nibbles() ? 2 * v : 4 * v;
    const int odd_column = kLayout.nibbles() ? 16 + 2 * v : 4 * v + 4;
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512i even_x = Broadcast4(x.values[r] + even_column);
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        dot[r][p][0] = _mm512_dpbusd_epi32(dot[r][p][0], even[p], even_x);
      }
    }
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512i odd_x = Broadcast4(x.values[r] + odd_column);
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
      const auto* const at = reinterpret_cast<const uint16_t*>(block + p * panel_bytes +
                                                               kLayout.scale_at() + 32 * part);
      const __m512 scale = LoadHalf512(at);
      PIE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        sum[r][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r][p][part]),
                                    _mm512_mul_ps(scale, _mm512_set1_ps(*x.scales[r])), sum[r][p]);
      }
      if constexpr (kLayout.has_min && !kLayout.whole_min()) {
        const __m512 min = LoadHalf512(at + (kLayout.min_at() - kLayout.scale_at()) / 2);
        PIE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const int32_t x_sum = part == 0 ? *x.first_sums[r] : *x.sums[r] - *x.first_sums[r];
          const float real_sum = *x.scales[r] * static_cast<float>(x_sum);
          sum[r][p] = _mm512_fmadd_ps(min, _mm512_set1_ps(real_sum), sum[r][p]);
        }
      }
    }
  }
}

// Adds the contribution of all minima of the tile's rows of W.
template <PanelFormat kFormat, int kRows, int kPanels>
[[gnu::always_inline]] PIE_AVX512_VNNI inline void AddMinima(const QuantizedTile& t,
                                                             __m512 (&sum)[kRows][kPanels]) {
  const size_t stride = t.x->whole_stride();
  Rows<int16_t, kRows> x(t.x->whole_sums.data() + t.row * stride, stride);
  const std::byte* minima = t.panel + LayoutOf(kFormat).minima_at(t.blocks);
  __m512i dot[kRows][kPanels];
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PIE_UNROLL
    for (int p = 0; p < kPanels; ++p) dot[r][p] = _mm512_setzero_si512();
  }
  for (uint32_t b = 0; b < t.blocks; b += 2, minima += 64, x.Advance(2)) {
    __m512i pair[kPanels];
    PIE_UNROLL
    for (int p = 0; p < kPanels; ++p) pair[p] = _mm512_loadu_si512(minima + p * t.panel_bytes);
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512i two = Broadcast4(x[r]);
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        dot[r][p] = _mm512_dpwssd_epi32(dot[r][p], pair[p], two);
      }
    }
  }
  PIE_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    const __m512 units = Units<kFormat>(t.panel + p * t.panel_bytes, t.blocks);
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512 unit = _mm512_mul_ps(units, _mm512_set1_ps(t.x->sum_units[t.row + r]));
      sum[r][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r][p]), unit, sum[r][p]);
    }
  }
}

template <PanelFormat kFormat, int kRows, int kPanels>
[[gnu::always_inline]] PIE_AVX512_VNNI inline void AddOutliers(const QuantizedTile& t,
                                                               __m512 (&sum)[kRows][kPanels]) {
  const float* columns = nullptr;
  if constexpr (kRows >= kSharedRows) {
    if (t.unpack) {
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        t.outlier_columns->Unpack<kFormat>(t.panel + p * t.panel_bytes, t.blocks, t.place + p);
      }
    }
    columns = t.outlier_columns->At(t.place);
  }
  const uint32_t count = t.x->outliers_per_row();
  Rows<Outlier, kRows> outliers(t.x->outliers.data() + size_t{t.row} * count, count);
  for (uint32_t i = 0; i < count; ++i, outliers.Advance(1)) {
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const auto [column, number] = *outliers[r];
      const __m512 value = _mm512_set1_ps(number);
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        __m512 w;
        if constexpr (kRows >= kSharedRows) {
          const size_t at = column + p * size_t{t.x->columns};
          w = _mm512_load_ps(columns + at * kPanelRows);
        } else {
          const uint32_t b = column / kQuantBlock;
          w = BlockColumns<kFormat>(t.panel + p * t.panel_bytes, t.blocks, b)
                  .At(column % kQuantBlock);
        }
        sum[r][p] = _mm512_fmadd_ps(value, w, sum[r][p]);
      }
    }
  }
}

// kFetch: the tile may have a next panel to prefetch.
template <PanelFormat kFormat, int kRows, int kPanels, bool kFetch>
PIE_AVX512_VNNI void RunTile(const QuantizedTile& t) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  constexpr uint32_t kBytes = kLayout.bytes();
  __m512 sum[kRows][kPanels];
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PIE_UNROLL
    for (int p = 0; p < kPanels; ++p) sum[r][p] = _mm512_setzero_ps();
    // Stores retire in order, and the cache lines of a long y are far away: prefetch them.
    PIE_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      PrefetchForWrite(t.later + r * t.later_stride + p * kPanelRows);
    }
  }
  const size_t first = size_t{t.row} * t.blocks;
  BlockRows<kRows> x{{t.x->values.data() + first * kQuantBlock, size_t{t.blocks} * kQuantBlock},
                     {t.x->scales.data() + first, t.blocks},
                     {t.x->sums.data() + first, t.blocks},
                     {t.x->first_sums.data() + first, t.blocks}};
  const std::byte* block = t.panel;
  NextPanels next(t.next, kPanels * t.panel_bytes, t.blocks);
  for (uint32_t b = 0; b < t.blocks; ++b, block += kBytes) {
    if (kFetch && t.next != nullptr) next.Fetch();
    AddBlock<kFormat, kRows, kPanels>(block, t.panel_bytes, x, sum);
    x.values.Advance(kQuantBlock);
    x.scales.Advance(1);
    if constexpr (!kLayout.whole_min()) {
      x.sums.Advance(1);
      x.first_sums.Advance(1);
    }
  }
  if constexpr (kLayout.whole_min()) AddMinima<kFormat, kRows, kPanels>(t, sum);
  AddOutliers<kFormat, kRows, kPanels>(t, sum);
  PIE_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    const uint16_t mask = LaneMask(p + 1 == kPanels ? t.lanes : kPanelRows);
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      Store512(t.y + r * t.y_stride + p * size_t{kPanelRows}, mask, sum[r][p]);
    }
  }
}

// Runs tiles of kRows rows, beginning with tile.row, as long as they fit below `row_end`.
template <PanelFormat kFormat, int kRows, int kPanels>
void RunTiles(QuantizedTile& tile, uint32_t row_end) {
  // Most tall tiles are not the first of their panel, and have no registers left for prefetching.
  constexpr bool kLater = kRows != kTall && kRows > 1;
  for (; row_end - tile.row >= kRows; tile.row += kRows) {
    tile.next != nullptr ? RunTile<kFormat, kRows, kPanels, (kRows > 1)>(tile)
                         : RunTile<kFormat, kRows, kPanels, kLater>(tile);
    tile.y += kRows * tile.y_stride;
    tile.later += kRows * tile.later_stride;
    tile.next = nullptr;
    tile.unpack = false;
  }
}

template <PanelFormat kFormat, int kPanels>
void RunRows(QuantizedTile& tile, uint32_t row_end) {
  RunTiles<kFormat, kMaxRows, kPanels>(tile, row_end);
  RunTiles<kFormat, 4, kPanels>(tile, row_end);
  RunTiles<kFormat, 2, kPanels>(tile, row_end);
  RunTiles<kFormat, 1, kPanels>(tile, row_end);
}

template <PanelFormat kFormat>
void RunRange(const PackedMatrix& w, const QuantizedRows& x, const Output& out) {
  // Two scales per row need the registers of the second panel.
  constexpr bool kTwoScales = LayoutOf(kFormat).scales == 2;
  const MatMulRange& range = out.range;
  const uint32_t rows = range.row_end - range.row_begin;
  Output later = out;
  if (out.to.later != nullptr) {
    // only prefetched here, never written
    later.to = {const_cast<float*>(out.to.later), out.to.later_stride};
  }
  thread_local OutlierColumns columns;
  if (rows >= kSharedRows) columns.Plan(x, range.row_begin, range.row_end);
  for (uint32_t panel = range.panel_begin; panel < range.panel_end;) {
    constexpr uint32_t kWidest = kTwoScales ? 1 : 2;
    const uint32_t panels = rows > 1 && panel + 1 < range.panel_end ? kWidest : 1;
    const std::byte* const first = w.Panel(panel);
    const std::byte* const next =
        panel + 2 * panels <= w.panels() ? w.Panel(panel + panels) : nullptr;
    float* const y = out.At(range.row_begin, panel);
    const float* const later_y = later.At(range.row_begin, panel);
    // One tile is assigned field by field and never copied: the wide loads of a copy would wait for
    // all earlier stores, including those of the last outputs.
    QuantizedTile tile{
        .panel = first,
        .next = next,
        .panel_bytes = w.panel_bytes(),
        .blocks = x.blocks(),
        .lanes = kPanelRows,
        .x = &x,
        .row = range.row_begin,
        .outlier_columns = &columns,
        .unpack = true,
        .place = 0,
        .y = y,
        .y_stride = out.to.stride,
        .later = later_y,
        .later_stride = later.to.stride,
    };
    if (!kTwoScales && rows >= kTall) {
      for (uint32_t p = 0; p < panels; ++p) {
        tile.panel = first + p * w.panel_bytes();
        tile.next = next == nullptr ? nullptr : next + p * w.panel_bytes();
        tile.unpack = true;
        tile.place = p;
        tile.row = range.row_begin;
        tile.y = y + size_t{p} * kPanelRows;
        tile.later = later_y + size_t{p} * kPanelRows;
        tile.lanes = LanesOf(w, panel + p);
        if constexpr (!kTwoScales) RunTiles<kFormat, kTall, 1>(tile, range.row_end);
      }
      tile.panel = first;
      tile.place = 0;
      tile.y = y + (tile.row - range.row_begin) * tile.y_stride;
      tile.later = later_y + (tile.row - range.row_begin) * tile.later_stride;
    }
    tile.lanes = LanesOf(w, panel + panels - 1);
    panels == 2 ? RunRows<kFormat, kWidest>(tile, range.row_end)
                : RunRows<kFormat, 1>(tile, range.row_end);
    panel += panels;
  }
}

}  // namespace

void QuantizedAvx512Vnni(const PackedMatrix& w, const QuantizedRows& x, const Output& out) {
  WithFormat(w.format(), [&]<PanelFormat kFormat>() { RunRange<kFormat>(w, x, out); });
}

}  // namespace pie::cpu::matmul
