#include "backend/cuda/kernels/product.h"

#include "backend/cuda/kernels/product_sums.cuh"

namespace pie::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kRowsOfW = 16;  // of one block
constexpr int kChunk = 32;    // columns that a warp multiplies at a time

constexpr uint32_t kThreads = kWarps * 32;

// The weights of kUnroll chunks: two rows of a thread, 8 numbers each.
template <int kUnroll>
struct Weights {
  uint4 top[kUnroll];
  uint4 bottom[kUnroll];
};

// One block computes 16 columns of y for up to 8 × kTiles rows. Its warps take chunks of k in turn
// and add their sums at the end, in the order of the warps.
//
// A tensor core's tile wants its 16 columns of k spread over the threads in pairs. Which numbers
// they are does not matter, as long as both operands agree. So a thread loads 8 neighbouring
// numbers of W and of x, and uses them in two tiles.
template <int kTiles, int kUnroll, int kBlocks, ProductOutput kOutput>
__global__ void __launch_bounds__(kThreads, kBlocks) ProductKernel(const Product p) {
  __shared__ float sums[kWarps][kTiles * 4][32];
  LetNextStart();
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const uint32_t row_of_w = blockIdx.x * kRowsOfW + lane / 4;
  const uint32_t chunks = (p.k + kChunk - 1) / kChunk;
  const uint32_t column = (lane % 4) * 8;

  BlockRows of;
  if (!FindRows(p, blockIdx.y, 8 * kTiles, of)) return;
  const bf16* const w = static_cast<const bf16*>(p.w) + static_cast<size_t>(of.expert) * p.n * p.k;
  const bf16* const top = w + static_cast<size_t>(min(row_of_w, p.n - 1)) * p.k;
  const bf16* const bottom = w + static_cast<size_t>(min(row_of_w + 8, p.n - 1)) * p.k;

  const auto load = [&](uint32_t chunk, Weights<kUnroll>& to) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const uint32_t at = (chunk + u * kWarps) * kChunk + column;
      to.top[u] = to.bottom[u] = make_uint4(0, 0, 0, 0);
      if (at < p.k) {
        to.top[u] = __ldcs(reinterpret_cast<const uint4*>(top + at));
        to.bottom[u] = __ldcs(reinterpret_cast<const uint4*>(bottom + at));
      }
    }
  };

  Weights<kUnroll> now;
  if (p.fresh) WaitForInputs();
  load(warp, now);
  if (p.tiles == nullptr && !p.fresh) WaitForInputs();

  const bf16* x[kTiles];
  FindInputs(p, of, lane, x);
  float acc[kTiles][4] = {};
  for (uint32_t chunk = warp; chunk < chunks; chunk += kWarps * kUnroll) {
    Weights<kUnroll> next;
    load(chunk + kWarps * kUnroll, next);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const uint32_t at = (chunk + u * kWarps) * kChunk + column;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (at < p.k) v = *reinterpret_cast<const uint4*>(x[t] + at);
        Mma(acc[t], now.top[u].x, now.bottom[u].x, now.top[u].y, now.bottom[u].y, v.x, v.y);
        Mma(acc[t], now.top[u].z, now.bottom[u].z, now.top[u].w, now.bottom[u].w, v.z, v.w);
      }
    }
    now = next;
  }

  WriteSums<kTiles, kWarps>(p, kOutput, blockIdx.x, of, acc, sums);
}

template <ProductOutput kOutput>
void RunOutput(const Product& product, Stream stream) {
  const uint32_t wide = (product.n + kRowsOfW - 1) / kRowsOfW;
  if (product.rows == 0 && product.tiles == nullptr) return;
  // Blocks of more registers keep more loads in flight, but fewer blocks fit at a time. The best
  // choice depends on how full the last round of blocks is.
  const auto fill = [&](uint32_t blocks) {
    const uint32_t slots = static_cast<uint32_t>(processors) * blocks;
    return static_cast<float>(wide) / static_cast<float>((wide + slots - 1) / slots * slots);
  };
  const auto run = [&](auto kernel, uint32_t tiles) {
    const uint32_t high =
        product.tiles != nullptr ? product.max_tiles : (product.rows + 8 * tiles - 1) / (8 * tiles);
    Launch(kernel, dim3(wide, high), dim3(kThreads), 0, stream, product);
  };
  if (product.tiles != nullptr || product.rows <= 8) {
    if (fill(3) > fill(2)) {
      run(ProductKernel<1, 2, 3, kOutput>, 1);
    } else {
      run(ProductKernel<1, 4, 2, kOutput>, 1);
    }
  } else if (product.rows <= 16) {
    run(ProductKernel<2, 4, 2, kOutput>, 2);
  } else {
    run(ProductKernel<4, 4, 2, kOutput>, 4);
  }
}

}  // namespace

void RunProduct(const Product& product, Stream stream) {
  if (product.kind != WeightKind::kBf16) return RunPackedProduct(product, stream);
  switch (product.output) {
    case ProductOutput::kFloat:
      return RunOutput<ProductOutput::kFloat>(product, stream);
    case ProductOutput::kAdd:
      return RunOutput<ProductOutput::kAdd>(product, stream);
    case ProductOutput::kGated:
      return RunOutput<ProductOutput::kGated>(product, stream);
    case ProductOutput::kBf16:
      return RunOutput<ProductOutput::kBf16>(product, stream);
  }
}

}  // namespace pie::cuda
