#include <algorithm>
#include <cstring>

#include "backend/cpu/machine/simd.h"
#include "backend/cpu/matmul/matmul_kernels.h"

namespace pie::cpu::matmul {
namespace {

constexpr size_t kTileBytes = size_t{kTileRows} * kTileColumns * 2;

// The operand of LDTILECFG: all eight tiles have sixteen rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// Prefetches weights a fixed distance ahead.
PIE_AMX inline void Fetch(const std::byte* w, size_t bytes = 64) {
  constexpr size_t kAhead = 2048;
  for (size_t i = 0; i < bytes; i += 64) _mm_prefetch(w + kAhead + i, _MM_HINT_T1);
}

PIE_AVX512_BF16 inline __m512 And512(__m512 a, __m512i b) {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a), b));
}

// Interleaves the upper halves of both.
PIE_AVX512_BF16 inline __m512i Paired(__m512 even, __m512 odd) {
  return _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(_mm512_castps_si512(even), 16),
                                 _mm512_castps_si512(odd));
}

// Converts columns of an F16 panel to tiles: [steps][high, low][16 pairs of columns][16 rows of
// W][2]. The two parts are exact: the upper half of a float holds the first eight of F16's eleven
// bits.
PIE_AMX void MakeTiles(const std::byte* panel, uint32_t steps, std::byte* tiles) {
  const __m512i upper = _mm512_set1_epi32(kUpperHalf);
  for (uint32_t step = 0; step < steps; ++step, tiles += kTileBytes) {
    for (uint32_t i = 0; i < kTileColumns; i += 2, panel += 64, tiles += 64) {
      const auto* const halves = reinterpret_cast<const uint16_t*>(panel);
      Fetch(panel);
      const __m512 even = LoadHalf512(halves);
      const __m512 odd = LoadHalf512(halves + kPanelRows);
      const __m512 even_high = And512(even, upper);
      const __m512 odd_high = And512(odd, upper);
      _mm512_store_si512(tiles, Paired(even_high, odd_high));
      _mm512_store_si512(tiles + kTileBytes,
                         Paired(_mm512_sub_ps(even, even_high), _mm512_sub_ps(odd, odd_high)));
    }
  }
}

// A product of 16 or 32 rows of x with one or two panels of W. Tiles 0 to 3 hold sums, 4 and 5 hold
// x, 6 and 7 hold W.
struct TileWork {
  const uint16_t* high = nullptr;  // the first row of x
  const uint16_t* low = nullptr;
  size_t stride = 0;                 // bytes from row to row
  const std::byte* tiles = nullptr;  // the first panel
  size_t panel_tile_bytes = 0;       // from one panel's tiles to the next one's
  uint32_t steps = 0;
};

template <int kTall>
PIE_AMX inline void LoadRows(const uint16_t* x, size_t stride) {
  _tile_loadd(4, x, stride);
  if constexpr (kTall == 2) {
    _tile_loadd(5, reinterpret_cast<const std::byte*>(x) + kTileRows * stride, stride);
  }
}

template <int kWide>
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

PIE_AMX inline void ZeroSums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

// Adds the smallest terms first. The product of two low parts is left out: it is below the last bit
// of a float.
template <PanelFormat kFormat, int kTall, int kWide>
PIE_AMX void Accumulate(const TileWork& work) {
  constexpr bool kTwo = kFormat == PanelFormat::kF16;
  const std::byte* w = work.tiles;
  for (uint32_t step = 0; step < work.steps; ++step, w += kTwo ? 2 * kTileBytes : kTileBytes) {
    if constexpr (!kTwo) {  // the tiles are the weights themselves
      Fetch(w, kTileBytes);
      if constexpr (kWide == 2) Fetch(w + work.panel_tile_bytes, kTileBytes);
    }
    LoadPanels<kWide>(w, work.panel_tile_bytes);
    LoadRows<kTall>(work.low + step * kTileColumns, work.stride);
    Multiply<kTall, kWide>();
    LoadRows<kTall>(work.high + step * kTileColumns, work.stride);
    Multiply<kTall, kWide>();
    if constexpr (kTwo) {
      LoadPanels<kWide>(w + kTileBytes, work.panel_tile_bytes);
      Multiply<kTall, kWide>();
    }
  }
}

// The sums of up to 32 rows of x and 32 rows of W, on their way to y.
struct alignas(64) Sums {
  static constexpr size_t kStride = 2 * kPanelRows;
  float at[2 * kTileRows][kStride];
};

template <int kTall, int kWide>
PIE_AMX void Store(Sums& sums) {
  constexpr size_t kBytes = sizeof(sums.at[0]);
  _tile_stored(0, sums.at[0], kBytes);
  if constexpr (kWide == 2) _tile_stored(1, sums.at[0] + kPanelRows, kBytes);
  if constexpr (kTall == 2) _tile_stored(2, sums.at[kTileRows], kBytes);
  if constexpr (kTall == 2 && kWide == 2) {
    _tile_stored(3, sums.at[kTileRows] + kPanelRows, kBytes);
  }
  asm volatile("" ::: "memory");
}

// Runs one or two panels of W over all rows of a range.
template <PanelFormat kFormat>
class PanelRun {
 public:
  PanelRun(const PackedMatrix& w, const SplitRows& x, const Output& out, uint32_t panel)
      : w_(w), x_(x), out_(out), panel_(panel), wide_(panel + 1 < out.range.panel_end ? 2 : 1) {}

  PIE_AMX void Run() const {
    const auto [begin, end, first, last] = out_.range;
    const uint32_t steps = w_.columns() / kTileColumns;
    TileWork work{.tiles = w_.Panel(panel_), .panel_tile_bytes = w_.panel_bytes(), .steps = steps};
    if constexpr (kFormat == PanelFormat::kF16) {
      if (end - begin <= kMost) return RunFew(steps);
      thread_local AlignedVector<std::byte> memory;
      work.panel_tile_bytes = size_t{steps} * 2 * kTileBytes;
      if (memory.size() < 2 * work.panel_tile_bytes) memory.resize(2 * work.panel_tile_bytes);
      work.tiles = memory.data();
      Make(0, steps, memory.data());
    }
    for (uint32_t row = begin; row < end; row += kMost) {
      SetRows(row, 0, work);
      ZeroSums();
      Tiles(row, work);
      Write(row);
    }
  }

 private:
  static constexpr uint32_t kMost = 2 * kTileRows;

  // Makes the tiles of one step at a time, so that the next ones are made while all rows are
  // multiplied with these.
  PIE_AMX void RunFew(uint32_t steps) const {
    alignas(64) std::byte tiles[2][4 * kTileBytes];
    const uint32_t row = out_.range.row_begin;
    TileWork work{.panel_tile_bytes = 2 * kTileBytes, .steps = 1};
    ZeroSums();
    Make(0, 1, tiles[0]);
    for (uint32_t step = 0; step < steps; ++step) {
      if (step + 1 < steps) Make(step + 1, 1, tiles[(step + 1) % 2]);
      work.tiles = tiles[step % 2];
      SetRows(row, step, work);
      Tiles(row, work);
    }
    Write(row);
  }

  // Converts F16 panels to tiles, beginning with `step`.
  PIE_AMX void Make(uint32_t step, uint32_t steps, std::byte* tiles) const {
    for (int p = 0; p < wide_; ++p) {
      MakeTiles(w_.Panel(panel_ + p) + step * kTileBytes, steps,
                tiles + p * steps * 2 * kTileBytes);
    }
    asm volatile("" ::: "memory");  // compilers do not know what a tile load reads
  }

  void SetRows(uint32_t row, uint32_t step, TileWork& work) const {
    work.high = x_.High(row) + step * kTileColumns;
    work.low = x_.Low(row) + step * kTileColumns;
    work.stride = x_.stride() * sizeof(uint16_t);
  }

  uint32_t RowsFrom(uint32_t row) const { return std::min(kMost, out_.range.row_end - row); }

  PIE_AMX void Tiles(uint32_t row, const TileWork& work) const {
    if (RowsFrom(row) > kTileRows) {
      (wide_ == 2 ? Accumulate<kFormat, 2, 2> : Accumulate<kFormat, 2, 1>)(work);
    } else {
      (wide_ == 2 ? Accumulate<kFormat, 1, 2> : Accumulate<kFormat, 1, 1>)(work);
    }
  }

  PIE_AMX void Write(uint32_t row) const {
    const uint32_t rows = RowsFrom(row);
    Sums sums;
    if (rows > kTileRows) {
      (wide_ == 2 ? Store<2, 2> : Store<2, 1>)(sums);
    } else {
      (wide_ == 2 ? Store<1, 2> : Store<1, 1>)(sums);
    }
    const uint32_t lanes = (wide_ - 1) * kPanelRows + LanesOf(w_, panel_ + wide_ - 1);
    for (uint32_t r = 0; r < rows; ++r) {
      std::memcpy(out_.At(row + r, panel_), sums.at[r], lanes * sizeof(float));
    }
  }

  const PackedMatrix& w_;
  const SplitRows& x_;
  const Output& out_;
  const uint32_t panel_;
  const int wide_;
};

template <PanelFormat kFormat>
void RunRange(const PackedMatrix& w, const SplitRows& x, const Output& out) {
  for (uint32_t panel = out.range.panel_begin; panel < out.range.panel_end; panel += 2) {
    PanelRun<kFormat>(w, x, out, panel).Run();
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
  _tile_release();  // otherwise every context switch would save the tiles
}

}  // namespace pie::cpu::matmul
