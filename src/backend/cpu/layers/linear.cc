#include "backend/cpu/layers/linear.h"

#include <algorithm>

#include "backend/cpu/layers/activation.h"
#include "base/result.h"

namespace pie::cpu {
namespace {

// A part reads at least this much of W, so that dispatching it costs little, …
constexpr size_t kPartBytes = 32 << 10;
// … and at most the rows of x that stay in the second-level cache while panels stream by: bytes, or
// split rows, which only processors with larger caches use.
constexpr size_t kChunkBytes = 512 << 10;
constexpr size_t kSplitChunkBytes = 1 << 20;
constexpr uint32_t kTallest = 12;  // rows of the tallest kernel tile
// Size of the gate and up outputs of a part before they are combined.
constexpr size_t kBothBytes = 256 << 10;
constexpr uint32_t kFewRows = 8;

struct Strip {
  const Product* product;
  uint32_t panel_begin, panel_end;
};

// Divides the panels into strips. Each strip is a fixed share of the panels left, so strips become
// shorter and the threads finish together even if one is preempted for a while. With few rows, the
// threads wait for memory, which is faster the longer it is read in sequence, so all strips have
// equal length.
std::vector<Strip> Cut(std::initializer_list<Product> products, uint32_t rows, unsigned threads) {
  uint32_t left = 0;
  for (const Product& product : products) left += product.w.panels();
  const uint32_t equal = rows < kFewRows ? left / (threads * 4) + 1 : 0;
  std::vector<Strip> strips;
  for (const Product& product : products) {
    const uint32_t all = product.w.panels();
    // With more rows, a smaller part of W is enough work.
    const size_t worth = kPartBytes * kFewRows / std::max(rows, kFewRows);
    const auto least = static_cast<uint32_t>(worth / product.w.panel_bytes()) + 1;
    for (uint32_t at = 0; at < all;) {
      uint32_t panels = std::max(equal != 0 ? equal : left / (threads * 3), least);
      panels = std::min(panels + panels % 2, all - at);  // tiles are two panels wide
      strips.push_back({&product, at, at + panels});
      at += panels;
      left -= panels;
    }
  }
  return strips;
}

// Calls f(product, range) for parts of all products, distributed over the threads.
template <class F>
void ForParts(ThreadPool& pool, const Activations& x, std::initializer_list<Product> products,
              F&& f) {
  if (x.rows() == 0) return;
  const std::vector<Strip> strips = Cut(products, x.rows(), pool.threads());
  const auto count = static_cast<uint32_t>(strips.size());
  // Uses as few chunks of rows as possible, of equal size, in whole tiles.
  const uint32_t tile = x.split() ? 2 * kTileRows : kTallest;
  const size_t fitting = x.split() ? kSplitChunkBytes / x.pieces().stride() / sizeof(uint16_t)
                                   : kChunkBytes / x.columns();
  const size_t most = std::max<size_t>(fitting, tile);
  const auto fewest = static_cast<uint32_t>((x.rows() + most - 1) / most);
  const uint32_t tiles = (x.rows() + tile * fewest - 1) / (tile * fewest);
  const uint32_t chunk = tiles * tile;
  const uint32_t chunks = (x.rows() + chunk - 1) / chunk;
  pool.ParallelFor(chunks * count, [&](uint32_t i) {
    const Strip& strip = strips[i % count];
    const uint32_t row = i / count * chunk;
    f(*strip.product,
      MatMulRange{row, std::min(row + chunk, x.rows()), strip.panel_begin, strip.panel_end});
  });
}

std::span<const float> Slice(std::span<const float> bias, uint32_t first, uint32_t count) {
  return bias.empty() ? bias : bias.subspan(first, count);
}

}  // namespace

void Activations::Resize(CpuLevel level, uint32_t rows, uint32_t columns, bool quantized) {
  level_ = level;
  rows_ = rows;
  columns_ = columns;
  quantized_ = quantized;
  split_ = level >= CpuLevel::kAmxBf16 && !quantized && columns % kTileColumns == 0;
  const size_t size = size_t{rows} * columns;
  if (values_.size() < size) values_.resize(size);
  if (quantized_) bytes_.Resize(rows, columns);
  if (split_) pieces_.Resize(rows, columns);
}

void MatMulPart(CpuLevel level, const PackedMatrix& w, const Activations& x,
                const MatMulRange& range, const PartOutput& to) {
  if (w.quantized()) {
    MatMulPart(level, w, x.bytes(), range, to);
  } else if (x.split() && TakesSplitRows(level, w)) {
    MatMulPart(w, x.pieces(), range, to);
  } else {
    MatMulPart(level, w, x.floats(), range, to);
  }
}

void MatMulAll(CpuLevel level, ThreadPool& pool, const Activations& x,
               std::initializer_list<Product> products) {
  ForParts(pool, x, products, [&](const Product& product, const MatMulRange& range) {
    const auto& [w, y, y_stride] = product;
    MatMulPart(level, w, x, range, PartOutput::In(y, y_stride, range));
  });
}

void MatMulPanels(CpuLevel level, ThreadPool& pool, const Activations& x, const Product& product,
                  std::span<const PanelRange> panels) {
  const auto& [w, y, y_stride] = product;
  pool.ParallelFor(static_cast<uint32_t>(panels.size()), [&](uint32_t i) {
    const MatMulRange range{0, x.rows(), panels[i].begin, std::min(panels[i].end, w.panels())};
    MatMulPart(level, w, x, range, PartOutput::In(y, y_stride, range));
  });
}

void MatMulGated(CpuLevel level, ThreadPool& pool, const Activations& x,
                 const FeedForwardWeights& ffn, Activation activation, Activations& out,
                 const GatedAddend* addend) {
  const auto& [gate, up, down] = ffn;
  const uint32_t columns = gate.w.rows();
  PIE_CHECK(up.w.rows() == columns && out.columns() == columns && out.rows() == x.rows());
  ForParts(pool, x, {{gate.w, nullptr, 0}}, [&](const Product&, const MatMulRange& part) {
    thread_local AlignedVector<float> memory;
    const uint32_t rows = part.row_end - part.row_begin;
    const uint32_t all = part.panel_end - part.panel_begin;
    const size_t fitting = kBothBytes / (rows * 2 * kPanelRows * sizeof(float));
    const auto panels = static_cast<uint32_t>(std::clamp<size_t>(fitting / 2 * 2, 2, all + 1));
    const size_t stride = size_t{panels} * kPanelRows;
    if (memory.size() < 2 * rows * stride) memory.resize(2 * rows * stride);
    float* const gates = memory.data();
    float* const ups = gates + rows * stride;
    MatMulRange range = part;
    for (uint32_t at = part.panel_begin; at < part.panel_end; at += panels) {
      range.panel_begin = at;
      range.panel_end = std::min(at + panels, part.panel_end);
      const uint32_t first = at * kPanelRows;
      MatMulPart(level, gate.w, x, range, {gates, stride});
      MatMulPart(level, up.w, x, range,
                 {.y = ups,
                  .stride = stride,
                  .later = out.Row(part.row_begin) + first,
                  .later_stride = columns});
      const uint32_t count = std::min(range.panel_end * kPanelRows, columns) - first;
      if (addend != nullptr) {
        addend->AddColumns({part.row_begin, rows, first, count, gates, ups, stride});
      }
      for (uint32_t i = 0; i < rows; ++i) {
        float* const g = gates + i * stride;
        float* const u = ups + i * stride;
        AddBias(Slice(gate.bias, first, count), g);
        AddBias(Slice(up.bias, first, count), u);
        Gate(level, activation, g, u, count, out.Row(part.row_begin + i) + first);
      }
    }
  });
}

}  // namespace pie::cpu
