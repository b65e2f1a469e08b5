#include <algorithm>
#include <cstring>

#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/simd.h"

namespace pie::cpu::matmul {
namespace {

constexpr size_t kTileBytes = size_t{kTileRows} * kTileColumns * 2;

// What LDTILECFG reads: all eight tiles are sixteen rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// Bfloat16s that a weight takes: F16 has three bits more than one.
constexpr int PiecesOf(PanelFormat format) {
  return format == PanelFormat::kF16 ? 2 : 1;
}

// Two columns of a panel behind one another → pairs, as a tile has them.
PIE_AVX512_BF16 inline __m512i Paired(__m512i columns) {
  const __m512i even = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(columns));
  const __m512i odd = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(columns, 1));
  return _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
}

// A panel as tiles: [steps][pieces][16 pairs of columns][16 rows of W][2].
template <PanelFormat kFormat>
PIE_AVX512_BF16 void MakeTiles(const std::byte* panel, uint32_t columns, std::byte* tiles) {
  for (uint32_t step = 0; step < columns; step += kTileColumns) {
    for (uint32_t i = 0; i < kTileColumns; i += 2, panel += 64, tiles += 64) {
      const __m512i columns_two = _mm512_loadu_si512(panel);
      if constexpr (kFormat == PanelFormat::kBF16) {
        _mm512_store_si512(tiles, Paired(columns_two));
        continue;
      }
      const __m512 even = _mm512_cvtph_ps(_mm512_castsi512_si256(columns_two));
      const __m512 odd = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(columns_two, 1));
      const __m256i even_high = FloatsToBf16(even);
      const __m256i odd_high = FloatsToBf16(odd);
      const __m256i even_low = FloatsToBf16(_mm512_sub_ps(even, Bf16ToFloats(even_high)));
      const __m256i odd_low = FloatsToBf16(_mm512_sub_ps(odd, Bf16ToFloats(odd_high)));
      _mm512_store_si512(tiles, Paired(Both256(even_high, odd_high)));
      _mm512_store_si512(tiles + kTileBytes, Paired(Both256(even_low, odd_low)));
    }
    tiles += (PiecesOf(kFormat) - 1) * kTileBytes;
  }
}

// Sixteen or 32 rows of x, one or two panels of W. Tiles 0 to 3 are sums, 4 and 5 are x, 6 and 7
// are W.
struct TileWork {
  const uint16_t* high;  // of the first row of x
  const uint16_t* low;
  size_t stride;            // bytes from row to row
  const std::byte* tiles;   // of the first panel
  size_t panel_tile_bytes;  // from one panel's to the next one's
  uint32_t steps;
};

template <int kTall, int kWide>
PIE_AMX inline void LoadRows(const uint16_t* x, size_t stride) {
  _tile_loadd(4, x, stride);
  if constexpr (kTall == 2) {
    _tile_loadd(5, reinterpret_cast<const std::byte*>(x) + kTileRows * stride, stride);
  }
}

template <int kTall, int kWide>
PIE_AMX inline void LoadPanels(const std::byte* tiles, size_t panel_tile_bytes) {
  _tile_loadd(6, tiles, 64);
  if constexpr (kWide == 2) _tile_loadd(7, tiles + panel_tile_bytes, 64);
}

template <int kTall, int kWide>
PIE_AMX inline void Multiply() {
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (kWide == 2) _tile_dpbf16ps(1, 4, 7);
  if constexpr (kTall == 2) _tile_dpbf16ps(2, 5, 6);
  if constexpr (kTall == 2 && kWide == 2) _tile_dpbf16ps(3, 5, 7);
}

// What is smallest is added first. Low parts do not meet: their product is below the last bit of a
// float.
template <int kPieces, int kTall, int kWide>
PIE_AMX void RunTiles(const TileWork& work, float* sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const std::byte* w = work.tiles;
  for (uint32_t step = 0; step < work.steps; ++step, w += kPieces * kTileBytes) {
    LoadPanels<kTall, kWide>(w, work.panel_tile_bytes);
    LoadRows<kTall, kWide>(work.low + step * kTileColumns, work.stride);
    Multiply<kTall, kWide>();
    LoadRows<kTall, kWide>(work.high + step * kTileColumns, work.stride);
    Multiply<kTall, kWide>();
    if constexpr (kPieces == 2) {
      LoadPanels<kTall, kWide>(w + kTileBytes, work.panel_tile_bytes);
      Multiply<kTall, kWide>();
    }
  }
  // [32 rows of x][32 rows of W]
  constexpr size_t kStride = 2 * kPanelRows * sizeof(float);
  _tile_stored(0, sums, kStride);
  if constexpr (kWide == 2) _tile_stored(1, sums + kPanelRows, kStride);
  if constexpr (kTall == 2) _tile_stored(2, sums + kTileRows * 2 * kPanelRows, kStride);
  if constexpr (kTall == 2 && kWide == 2) {
    _tile_stored(3, sums + (kTileRows * 2 + 1) * kPanelRows, kStride);
  }
}

template <PanelFormat kFormat>
PIE_AMX void RunRange(const PackedMatrix& w, const SplitRows& x, const Output& out) {
  constexpr int kPieces = PiecesOf(kFormat);
  constexpr uint32_t kMost = 2 * kTileRows;
  thread_local AlignedVector<std::byte> tiles;
  const size_t panel_tile_bytes = size_t{w.columns()} * kPanelRows * 2 * kPieces;
  if (tiles.size() < 2 * panel_tile_bytes) tiles.resize(2 * panel_tile_bytes);
  alignas(64) float sums[kMost * 2 * kPanelRows];
  for (uint32_t panel = out.range.panel_begin; panel < out.range.panel_end; panel += 2) {
    const bool wide = panel + 1 < out.range.panel_end;
    for (uint32_t p = 0; p < (wide ? 2 : 1); ++p) {
      MakeTiles<kFormat>(w.Panel(panel + p), w.columns(), tiles.data() + p * panel_tile_bytes);
    }
    const uint32_t lanes = (wide ? kPanelRows : 0) + LanesOf(w, panel + (wide ? 1 : 0));
    asm volatile("" ::: "memory");  // compilers do not know what a tile's load reads
    for (uint32_t row = out.range.row_begin; row < out.range.row_end; row += kMost) {
      const uint32_t rows = std::min(kMost, out.range.row_end - row);
      const TileWork work{.high = x.High(row),
                          .low = x.Low(row),
                          .stride = x.stride() * sizeof(uint16_t),
                          .tiles = tiles.data(),
                          .panel_tile_bytes = panel_tile_bytes,
                          .steps = w.columns() / kTileColumns};
      if (rows > kTileRows) {
        (wide ? RunTiles<kPieces, 2, 2> : RunTiles<kPieces, 2, 1>)(work, sums);
      } else {
        (wide ? RunTiles<kPieces, 1, 2> : RunTiles<kPieces, 1, 1>)(work, sums);
      }
      asm volatile("" ::: "memory");
      for (uint32_t r = 0; r < rows; ++r) {
        std::memcpy(out.At(row + r, panel), sums + r * 2 * kPanelRows, lanes * sizeof(float));
      }
    }
  }
}

}  // namespace

PIE_AMX void SplitAmx(const PackedMatrix& w, const SplitRows& x, const Output& out) {
  const TileConfig config;
  _tile_loadconfig(&config);
  if (w.format() == PanelFormat::kBF16) {
    RunRange<PanelFormat::kBF16>(w, x, out);
  } else {
    RunRange<PanelFormat::kF16>(w, x, out);
  }
  _tile_release();  // or every switch of threads would save tiles
}

}  // namespace pie::cpu::matmul
