// Products of many rows by cuBLASLt, which is loaded at run time where it is installed. The
// algorithm of each shape is chosen by measurement, once (Tune); without that, cuBLASLt's first
// guess is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backend/cuda/kernels/runtime.h"

namespace pie::cuda {

struct BlasProduct {
  const void* w = nullptr;  // [n, k] bfloat16
  const void* x = nullptr;  // [rows, k] bfloat16
  void* y = nullptr;        // [rows, y_stride]
  uint32_t n = 0;
  uint32_t k = 0;
  uint32_t rows = 0;
  uint32_t y_stride = 0;
  bool to_float = false;  // y is float; otherwise bfloat16
  bool add = false;       // y += …
};

class Blas {
 public:
  // Null if cuBLASLt cannot be loaded; `why` says why.
  static std::unique_ptr<Blas> Load(std::string* why);
  ~Blas();

  // False if cuBLASLt has no algorithm for the shape.
  bool Run(const BlasProduct& product, Stream stream);

  // Measures cuBLASLt's algorithms for the shape of `product`, and keeps the fastest. They run with
  // each of `matrices` in turn, so that the cache does not help. Returns milliseconds a product; a
  // negative number: none works.
  float Tune(BlasProduct product, std::span<const void* const> matrices, Stream stream);
  // The same, but only with algorithms that compute every row in the same way: equal rows give
  // equal results at any place. Writes to x.
  float TuneAlike(const BlasProduct& product, std::span<const void* const> matrices, Stream stream);

 private:
  struct Library;
  struct Plan;

  explicit Blas(std::unique_ptr<Library> library);
  Plan* PlanOf(const BlasProduct& product);
  bool ComputesRowsAlike(const BlasProduct& product, Plan& plan, const void* algorithm,
                         Stream stream);
  bool RunAlgorithm(const BlasProduct& product, Plan& plan, const void* algorithm, Stream stream);

  std::unique_ptr<Library> library_;
};

}  // namespace pie::cuda
