// ProductRunner: multiplies rows by a matrix with the fastest kernel that can: one of our own, a
// streamed one, or cuBLASLt, for which a packed matrix is unpacked first. Which one is the fastest
// is measured for each shape at the start (Tune), and guessed for shapes that were not.
//
// Owner: the StepRunner. One thread. It owns the room for an unpacked matrix.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <tuple>

#include "backend/cuda/device/device_weights.h"
#include "backend/cuda/kernels/blas.h"
#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/streamed_product.h"
#include "base/result.h"

namespace pie::cuda {

// Makes `matrix` the one that the product multiplies with.
void SetMatrix(Product& product, const DeviceMatrix& matrix);

class ProductRunner {
 public:
  struct Options {
    uint32_t max_rows = 0;
    uint32_t columns = 0;  // the largest number of columns of any input
    // A row's results do not depend on the rows beside it.
    bool deterministic = false;
    bool skip = false;  // for measurements: nothing is multiplied
  };
  // In deterministic mode, cuBLASLt always multiplies this many rows at a time. The buffers of
  // products must have room for a multiple of it.
  static constexpr uint32_t kFixedRows = 128;

  // `blas` may be null: then our own products do all the work. The matrix `whole` is never
  // unpacked.
  ProductRunner(const Options& options, const void* whole, Blas* blas, Stream stream)
      : options_(options),
        whole_(whole),
        blas_(blas),
        stream_(stream),
        streamed_(StreamedProducts::Make(options.columns)) {}

  // Makes room for the largest matrix that is unpacked.
  Status ReserveUnpacked(uint64_t numbers);
  // Where cuBLASLt puts the sums of gated products: [rows, n] bfloat16.
  void SetUngated(void* sums) { ungated_ = sums; }

  void Multiply(const Product& of);
  // Only the sums of a gated product, which `sums` describes. They are where SetUngated said.
  void MultiplyUngated(const Product& gated, const Product& sums);
  // A matrix in parts, one below the other. `whole` has the first part, and the size of all.
  void MultiplyParts(std::span<const DeviceMatrix> parts, const Product& whole);

  // Measures which way is the fastest for a product's shape, by matrices of its kind. Call it
  // before launches are recorded, and only where there is cuBLASLt.
  void Tune(const Product& product, std::span<const DeviceMatrix> matrices);
  void TuneParts(const Product& whole);

 private:
  // Kernels that can compute a product.
  enum class Way : uint8_t { kOwn, kBlas, kStreamed, kStreamedLarge };
  // Products that were measured, by their sizes, rows, outputs and weights.
  using Measured = std::tuple<uint32_t, uint32_t, uint32_t, ProductOutput, WeightKind>;
  static Measured KeyOf(const Product& product) {
    return {product.n, product.k, product.rows, product.output, product.kind};
  }

  // Many rows with a packed matrix: unpacks it, and returns the product with the result.
  bool Unpacks(const Product& product) const;
  bool UnpacksParts(const Product& whole) const;
  Product Unpacked(const Product& product) const;
  Product AsUnpacked(Product product) const;
  static uint32_t TileOf(Way way);  // of a streamed product
  Way WayOf(const Product& product) const;
  bool Can(Way way, const Product& product) const;
  void MultiplyBy(Way way, const Product& of);
  // By measuring them as they run in a step: in a graph, after others of their kind.
  void ChooseFastest(std::span<const Way> ways, Product product,
                     std::span<const DeviceMatrix> matrices);
  void RunBlas(const Product& product);
  BlasProduct ForBlas(const Product& product) const;

  const Options options_;
  const void* const whole_;
  Blas* const blas_;
  const Stream stream_;
  const std::unique_ptr<StreamedProducts> streamed_;  // null: not on this device
  std::map<Measured, Way> fastest_;
  // Shapes for which cuBLASLt has an algorithm that computes rows alike: in deterministic mode.
  std::set<Measured> alike_;
  DeviceMemory memory_;
  void* unpacked_ = nullptr;  // a matrix in bfloat16
  void* ungated_ = nullptr;
};

}  // namespace pie::cuda
