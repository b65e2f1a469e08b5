// Products of 9 to 256 rows on Hopper: a block on each multiprocessor streams its share of the
// matrix through shared memory, and the tensor cores read it there. Shares are equal to a few
// kilobytes whatever the shape: where a share ends within a tile, the block leaves its sums to the
// block that ends the tile, which adds them in a fixed order. So equal launches give equal bits.
//
// A launch begins to load weights before the kernels before it have ended (launch.cuh).
//
// The object owns the memory for those sums. It serves one stream at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/runtime.h"

namespace pie::cuda {

// Descriptions of matrices for copies, made once for each.
class MapCache {
 public:
  // Returns the description of a matrix for boxes of `box_rows` rows; `describe` makes it. Null if
  // that fails.
  template <class Describe>
  const MatrixMap* Of(const void* data, uint32_t rows, uint32_t columns, uint32_t box_rows,
                      const Describe& describe) {
    const auto [at, is_new] = maps_.try_emplace({data, rows, columns, box_rows});
    if (!is_new || describe(&at->second)) return &at->second;
    maps_.erase(at);
    return nullptr;
  }

 private:
  std::map<std::tuple<const void*, uint32_t, uint32_t, uint32_t>, MatrixMap> maps_;
};

class StreamedProducts {
 public:
  // Rows that read W once. More of them are taken in parts of this many, weights in fp8 by half.
  static constexpr uint32_t kMostRows = 256;
  // Rows of W that a block multiplies at a time: 128, or 256 if x is bfloat16 and has at most 128
  // rows. Larger tiles read x less often, but more blocks have to share each tile.
  static constexpr uint32_t kTiles[] = {128, 256};

  // Returns null if the current device cannot run streamed products, or has no memory left.
  // `columns`: the largest number of columns that the x of a product with packed weights has.
  static std::unique_ptr<StreamedProducts> Make(uint32_t columns);
  ~StreamedProducts();
  StreamedProducts(const StreamedProducts&) = delete;
  StreamedProducts& operator=(const StreamedProducts&) = delete;

  // Whether Run takes this product.
  bool Takes(const Product& product, uint32_t tile) const;
  // With tiles of 128, a row's sums do not depend on the rows beside it.
  void Run(const Product& product, uint32_t tile, Stream stream);

 private:
  StreamedProducts() = default;
  void RunPart(const Product& product, uint32_t tile, Stream stream);
  MapCache maps_;
  void* sums_ = nullptr;
  uint32_t* flags_ = nullptr;
  uint32_t columns_ = 0;
  void* inputs_ = nullptr;  // [kMostRows / 2, columns_] halves
};

}  // namespace pie::cuda
