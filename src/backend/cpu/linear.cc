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

// Each strip is a fair part of what is left, the first ones are long and the last ones short: so
// threads end together, whichever of them is taken off its core for a while. With few rows it is
// memory that they wait for, which gives more the longer it is read in one piece: all are as long.
std::vector<Strip> Cut(std::initializer_list<Product> products, uint32_t rows, unsigned threads) {
  uint32_t left = 0;
  for (const Product& product : products) left += product.w.panels();
  const uint32_t equal = rows < kFewRows ? left / (threads * 4) + 1 : 0;
  std::vector<Strip> strips;
  for (const Product& product : products) {
    const uint32_t all = product.w.panels();
    // Of more rows, less of W is worth it.
    const size_t worth = kPartBytes * kFewRows / std::max(rows, kFewRows);
    const auto least = static_cast<uint32_t>(worth / product.w.panel_bytes()) + 1;
    for (uint32_t at = 0; at < all;) {
      uint32_t panels = std::max(equal != 0 ? equal : left / (threads * 3), least);
      panels = std::min(panels + panels % 2, all - at);  // tiles are two wide
      strips.push_back({&product, at, at + panels});
      at += panels;
      left -= panels;
    }
  }
  return strips;
}

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
  const std::vector<Strip> strips = Cut(products, x.rows(), pool.threads());
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
