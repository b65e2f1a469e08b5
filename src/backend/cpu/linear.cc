#include "backend/cpu/linear.h"

#include <algorithm>

namespace pie::cpu {
namespace {

// As in matmul.cc: a part is worth handing out, and its rows stay in the second-level cache.
constexpr size_t kPartBytes = 32 << 10;
constexpr size_t kChunkBytes = 512 << 10;
constexpr uint32_t kFewRows = 8;

struct Strip {
  const Product* product;
  uint32_t panel_begin, panel_end;
};

}  // namespace

void Activations::Resize(uint32_t rows, uint32_t columns, bool quantized) {
  rows_ = rows;
  columns_ = columns;
  quantized_ = quantized;
  const size_t size = size_t{rows} * columns;
  if (values_.size() < size) values_.resize(size);
  if (quantized) bytes_.Resize(rows, columns);
}

void MatMulAll(CpuLevel level, ThreadPool& pool, const Activations& x,
               std::initializer_list<Product> products) {
  if (x.rows() == 0) return;
  uint32_t all_panels = 0;
  for (const Product& product : products) all_panels += product.w.panels();
  const uint32_t fair = all_panels / (pool.threads() * 4) + 1;

  std::vector<Strip> strips;
  for (const Product& product : products) {
    const size_t panel_bytes = product.w.panel_bytes();
    const auto least = static_cast<uint32_t>((kPartBytes + panel_bytes - 1) / panel_bytes);
    uint32_t panels = std::max(fair, x.rows() < kFewRows ? least : 1U);
    panels += panels % 2;  // tiles are two wide
    for (uint32_t at = 0; at < product.w.panels(); at += panels) {
      strips.push_back({&product, at, std::min(at + panels, product.w.panels())});
    }
  }
  const auto chunk =
      static_cast<uint32_t>(std::clamp<size_t>(kChunkBytes / x.columns(), 6, x.rows() + 6));
  const uint32_t chunks = (x.rows() + chunk - 1) / chunk;
  const auto count = static_cast<uint32_t>(strips.size());
  pool.ParallelFor(chunks * count, [&](uint32_t i) {
    const Strip& strip = strips[i % count];
    const uint32_t row = i / count * chunk;
    const MatMulRange range{row, std::min(row + chunk, x.rows()), strip.panel_begin,
                            strip.panel_end};
    const auto& [w, y, y_stride] = *strip.product;
    if (w.quantized()) {
      MatMulPart(level, w, x.bytes(), range, y, y_stride);
    } else {
      MatMulPart(level, w, x.floats(), range, y, y_stride);
    }
  });
}

}  // namespace pie::cpu
