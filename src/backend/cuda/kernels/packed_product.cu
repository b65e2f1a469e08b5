// Products with packed matrices: the numbers become bfloat16 in registers, without rounding, and
// their scales are applied to the sums of their group.
#include "backend/cuda/kernels/packed.cuh"
#include "backend/cuda/kernels/product_sums.cuh"

namespace pie::cuda {
namespace {

constexpr int kWarps = 8;
constexpr uint32_t kThreads = kWarps * 32;

// One block computes 16 columns of y for up to 8 × kTiles rows. Its warps take spans of k in turn.
// Blocks of the same columns follow one another, so that those after the first find the weights in
// the cache. While a span is multiplied, a warp loads the next kAhead ones.
template <WeightKind kKind, int kTiles, int kAhead>
__global__ void __launch_bounds__(kThreads, 2) PackedProductKernel(const Product p) {
  __shared__ float sums[kWarps][kTiles * 4][32];
  LetNextStart();
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const uint32_t spans = static_cast<uint32_t>(SpansOf(p.k));
  BlockRows of;
  if (!FindRows(p, blockIdx.x, 8 * kTiles, of)) return;
  const uint64_t first_tile =
      static_cast<uint64_t>(blockIdx.y) * spans + of.expert * TilesOf(p.n, p.k);
  struct Weights {
    RowSpan<kKind> top, bottom;
  };
  const auto load = [&](uint32_t span, Weights& to) {
    if (span >= spans) return;
    const char* const tile = static_cast<const char*>(p.w) + (first_tile + span) * TileBytes(kKind);
    const char* const scales =
        static_cast<const char*>(p.scales) + (first_tile + span) * (kTileRows * ScaleBytes(kKind));
    to.top.Load(tile, scales, lane, 0);
    to.bottom.Load(tile, scales, lane, 1);
  };
  Weights now{};
  Weights next[kAhead] = {};
  load(warp, now);
#pragma unroll
  for (int i = 0; i + 1 < kAhead; ++i) load(warp + (i + 1) * kWarps, next[i]);
  if (p.tiles == nullptr) WaitForInputs();

  const bf16* x[kTiles];
  FindInputs(p, of, lane, x);
  // Eight numbers of x, as PlaceOf has those of W.
  const auto inputs = [&](int t, uint32_t group) {
    uint4 v = make_uint4(0, 0, 0, 0);
    if constexpr (kKind == WeightKind::kInt6) {
      const uint32_t at = group + lane % 4 * 4;
      if (at < p.k) {
        const uint2 two = *reinterpret_cast<const uint2*>(x[t] + at);
        v.x = two.x;
        v.y = two.y;
      }
      if (at + 16 < p.k) {
        const uint2 two = *reinterpret_cast<const uint2*>(x[t] + at + 16);
        v.z = two.x;
        v.w = two.y;
      }
    } else {
      const uint32_t at = group + lane % 4 * 8;
      if (at < p.k) v = *reinterpret_cast<const uint4*>(x[t] + at);
    }
    return v;
  };

  float acc[kTiles][4] = {};
  for (uint32_t span = warp; span < spans; span += kWarps) {
    load(span + kAhead * kWarps, next[kAhead - 1]);
    float parts[kTiles][4] = {};  // of the span: fp8 only
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      uint32_t top[4];
      uint32_t bottom[4];
      now.top.Unpack(g, top);
      now.bottom.Unpack(g, bottom);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const uint4 v = inputs(t, span * kSpan + g * 32);
        float part[2][4] = {};  // of the group's halves
        float(&low)[4] = kKind == WeightKind::kFp8 ? parts[t] : part[0];
        float(&high)[4] = kKind == WeightKind::kInt6 ? part[1] : low;
        Mma(low, top[0], bottom[0], top[1], bottom[1], v.x, v.y);
        Mma(high, top[2], bottom[2], top[3], bottom[3], v.z, v.w);
        if constexpr (kKind != WeightKind::kFp8) {
          float whole[4] = {};  // sums of x
          if constexpr (kKind == WeightKind::kInt4Min) {
            Mma(whole, kOnes, kOnes, kOnes, kOnes, v.x, v.y);
            Mma(whole, kOnes, kOnes, kOnes, kOnes, v.z, v.w);
          }
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const RowSpan<kKind>& row = i < 2 ? now.top : now.bottom;
            acc[t][i] += row.Scale(g) * low[i];
            if constexpr (kKind == WeightKind::kInt6) acc[t][i] += row.Scale(g, 1) * high[i];
            if constexpr (kKind == WeightKind::kInt4Min) acc[t][i] += row.Minimum(g) * whole[i];
          }
        }
      }
    }
    if constexpr (kKind == WeightKind::kFp8) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          acc[t][i] += (i < 2 ? now.top : now.bottom).Scale(0) * parts[t][i];
        }
      }
    }
    now = next[0];
#pragma unroll
    for (int i = 0; i + 1 < kAhead; ++i) next[i] = next[i + 1];
  }
  WriteSums<kTiles, kWarps>(p, p.output, blockIdx.y, of, acc, sums);
}

template <WeightKind kKind>
void RunKind(const Product& product, Stream stream) {
  const uint32_t wide = (product.n + kTileRows - 1) / kTileRows;
  const auto run = [&](auto kernel, uint32_t tiles) {
    const uint32_t high =
        product.tiles != nullptr ? product.max_tiles : (product.rows + 8 * tiles - 1) / (8 * tiles);
    Launch(kernel, dim3(high, wide), dim3(kThreads), 0, stream, product);
  };
  if (product.tiles != nullptr || product.rows <= 8) {
    // If two blocks a multiprocessor are all there are, there is room for more registers.
    if (product.tiles == nullptr && wide <= 2 * static_cast<uint32_t>(processors)) {
      run(PackedProductKernel<kKind, 1, 2>, 1);
    } else {
      run(PackedProductKernel<kKind, 1, 1>, 1);
    }
  } else if (product.rows <= 16) {
    run(PackedProductKernel<kKind, 2, 1>, 2);
  } else {
    run(PackedProductKernel<kKind, 4, 1>, 4);
  }
}

// One warp per tile.
template <WeightKind kKind>
__global__ void __launch_bounds__(kThreads)
    UnpackKernel(const char* data, const char* scales, bf16* out, uint32_t n, uint32_t k) {
  LetNextStart();
  WaitForInputs();  // an earlier product may still read the memory that is overwritten
  const uint32_t spans = static_cast<uint32_t>(SpansOf(k));
  const uint32_t span = blockIdx.y * kWarps + threadIdx.x / 32;
  if (span >= spans) return;
  const int lane = threadIdx.x % 32;
  const uint64_t tile = static_cast<uint64_t>(blockIdx.x) * spans + span;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t row = blockIdx.x * kTileRows + half * 8 + lane / 4;
    if (row >= n) continue;
    RowSpan<kKind> numbers;
    numbers.Load(data + tile * TileBytes(kKind), scales + tile * kTileRows * ScaleBytes(kKind),
                 lane, half);
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      uint32_t pairs[4];
      numbers.Unpack(g, pairs);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 pair = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&pairs[i]));
        const float scale = numbers.Scale(g, kKind == WeightKind::kInt6 ? i / 2 : 0);
        const float least = kKind == WeightKind::kInt4Min ? numbers.Minimum(g) : 0.0F;
        pairs[i] = PackBf16(pair.x * scale + least, pair.y * scale + least);
      }
      const uint32_t group = span * kSpan + g * 32;
      bf16* const to = out + static_cast<size_t>(row) * k;
      if constexpr (kKind == WeightKind::kInt6) {
        const uint32_t at = group + lane % 4 * 4;
        if (at < k) *reinterpret_cast<uint2*>(to + at) = make_uint2(pairs[0], pairs[1]);
        if (at + 16 < k) *reinterpret_cast<uint2*>(to + at + 16) = make_uint2(pairs[2], pairs[3]);
      } else {
        const uint32_t at = group + lane % 4 * 8;
        if (at < k) {
          *reinterpret_cast<uint4*>(to + at) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        }
      }
    }
  }
}

// Calls f with a WeightKind as a constant.
template <class F>
void ForKind(WeightKind kind, F&& f) {
  switch (kind) {
    case WeightKind::kFp8:
      return f.template operator()<WeightKind::kFp8>();
    case WeightKind::kInt8:
      return f.template operator()<WeightKind::kInt8>();
    case WeightKind::kInt4:
      return f.template operator()<WeightKind::kInt4>();
    case WeightKind::kInt4Min:
      return f.template operator()<WeightKind::kInt4Min>();
    case WeightKind::kInt6:
      return f.template operator()<WeightKind::kInt6>();
    case WeightKind::kBf16:
      return;
  }
}

}  // namespace

void RunPackedProduct(const Product& product, Stream stream) {
  if (product.rows == 0 && product.tiles == nullptr) return;
  ForKind(product.kind, [&]<WeightKind kKind>() { RunKind<kKind>(product, stream); });
}

void RunUnpack(WeightKind kind, const void* data, const void* scales, uint32_t n, uint32_t k,
               void* out, Stream stream) {
  const dim3 grid((n + kTileRows - 1) / kTileRows,
                  (static_cast<uint32_t>(SpansOf(k)) + kWarps - 1) / kWarps);
  ForKind(kind, [&]<WeightKind kKind>() {
    Launch(UnpackKernel<kKind>, grid, dim3(kThreads), 0, stream, static_cast<const char*>(data),
           static_cast<const char*>(scales), static_cast<bf16*>(out), n, k);
  });
}

}  // namespace pie::cuda
