#include "backend/cuda/kernels/attention.h"

#include "backend/cuda/kernels/launch.cuh"

namespace pie::cuda {
namespace {

constexpr float kLog2E = 1.44269504088896341F;

__device__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Copies 16 bytes to shared memory, or writes zeros.
__device__ void CopyAsync(uint32_t to, const void* from, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(real ? 16 : 0));
}
__device__ void CommitCopies() {
  asm volatile("cp.async.commit_group;");
}
template <int kLeft>
__device__ void AwaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft));
}

__device__ void LoadMatrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ void LoadTransposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Address of a 16-byte chunk of a row. Chunks are permuted so that eight rows of one column do not
// meet in the same banks.
template <int kDim>
__device__ uint32_t ChunkAt(uint32_t tile, uint32_t row, uint32_t chunk) {
  return tile + row * (kDim * 2) + ((chunk ^ (row & 7)) << 4);
}

// Running softmax of the two lines of a thread.
struct Line {
  float most = -INFINITY;  // of the scores so far
  float sum = 0;           // of this thread's weights
  uint32_t end = 0;        // keys that the line sees: [begin, end) without those that mask forbids
  uint32_t begin = 0;
  const uint32_t* mask = nullptr;

  __device__ bool Sees(uint32_t key) const {
    if (key < begin || key >= end) return false;
    return mask == nullptr || (mask[key / 32] >> (key % 32) & 1U) != 0;
  }
};

template <int kDim, int kLineWarps, int kKeyWarps, int kStages>
__global__ void __launch_bounds__(32 * kLineWarps * kKeyWarps, kKeyWarps > 1 && kDim <= 128 ? 2 : 1)
    AttentionKernel(const Attention a, bool large) {
  constexpr int kThreads = 32 * kLineWarps * kKeyWarps;
  constexpr int kLines = 16 * kLineWarps;
  constexpr int kChunks = kDim / 8;
  constexpr int kWarpKeys = kKeyBlock / kKeyWarps;
  constexpr int kScoreTiles = kWarpKeys / 8;
  constexpr uint32_t kTileBytes = kKeyBlock * kDim * 2;
  constexpr bool kKeepQueries = kDim <= 128;
  extern __shared__ __align__(128) char shared[];
  const uint32_t q_tile = SharedAddress(shared);
  const uint32_t kv_tiles = q_tile + kLines * kDim * 2;

  LetNextStart();
  const StepHeader* const step = a.step;
  const uint32_t tiles = large ? step->large_tiles : step->small_tiles;
  const AttentionTile* const tile_list =
      ArrayOf<AttentionTile>(step, step->tiles) + (large ? step->small_tiles : 0);
  const uint32_t group = a.heads / a.kv.kv_heads;
  const uint32_t real_chunks = a.kv.head_stride / 8;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int line_warp = warp % kLineWarps;
  const int key_warp = warp / kLineWarps;
  const float to_log2 = a.softcap == 0 ? a.scale * kLog2E : kLog2E;
  WaitForInputs();

  for (uint32_t item = blockIdx.x; item < tiles * a.kv.kv_heads; item += gridDim.x) {
    const AttentionTile tile = tile_list[item / a.kv.kv_heads];
    const uint32_t kv_head = item % a.kv.kv_heads;
    const TileRow* const rows = ArrayOf<TileRow>(step, step->tile_rows) + tile.first_row;
    const uint32_t* const pages = ArrayOf<uint32_t>(step, step->pages) + tile.first_page;
    const uint32_t lines = tile.rows * group;
    const bf16* const keys = static_cast<const bf16*>(a.kv.data) + a.kv.layer_offset +
                             static_cast<uint64_t>(kv_head) * a.kv.page_tokens * a.kv.head_stride;
    const uint64_t to_values =
        static_cast<uint64_t>(a.kv.kv_heads) * a.kv.page_tokens * a.kv.head_stride;

    // With a window, keys before the earliest row's window are not read.
    uint32_t begin_key = tile.begin_key;
    if (a.window != 0) {
      const uint32_t first = tile.all_see > a.window ? tile.all_see - a.window : 0;
      begin_key = max(begin_key, min(first, tile.end_key) / kKeyBlock * kKeyBlock);
    }
    const uint32_t blocks =
        tile.end_key > begin_key ? (tile.end_key - begin_key + kKeyBlock - 1) / kKeyBlock : 0;

    const auto fetch = [&](uint32_t block) {
      if (block < blocks) {
        const uint32_t to = kv_tiles + block % kStages * (2 * kTileBytes);
#pragma unroll
        for (int i = 0; i < kKeyBlock * kChunks / kThreads; ++i) {
          const uint32_t at = threadIdx.x + i * kThreads;
          const uint32_t row = at / kChunks;
          const uint32_t chunk = at % kChunks;
          const uint32_t key = begin_key + block * kKeyBlock + row;
          const bool real = key < tile.end_key && chunk < real_chunks;
          const bf16* from = keys;
          if (real) {
            const uint32_t page =
                a.kv.page_shift != kNone ? key >> a.kv.page_shift : key / a.kv.page_tokens;
            from += pages[page] * a.kv.page_stride +
                    static_cast<uint64_t>(key - page * a.kv.page_tokens) * a.kv.head_stride +
                    chunk * 8;
          }
          CopyAsync(ChunkAt<kDim>(to, row, chunk), from, real);
          CopyAsync(ChunkAt<kDim>(to + kTileBytes, row, chunk), real ? from + to_values : from,
                    real);
        }
      }
      CommitCopies();
    };

    for (uint32_t i = threadIdx.x; i < kLines * kChunks; i += kThreads) {
      const uint32_t line = i / kChunks;
      const uint32_t chunk = i % kChunks;
      const bool real = line < lines && chunk < real_chunks;
      const bf16* from = static_cast<const bf16*>(a.q);
      if (real) {
        const size_t head = kv_head * group + line % group;
        from += (rows[line / group].row * static_cast<size_t>(a.heads) + head) * a.kv.head_stride +
                chunk * 8;
      }
      CopyAsync(ChunkAt<kDim>(q_tile, line, chunk), from, real);
    }
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) fetch(i);  // the first group has the queries too

    Line of[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t line = line_warp * 16 + lane / 4 + i * 8;
      if (line >= lines) continue;
      const uint32_t row = rows[line / group].row;
      const uint32_t limit = ArrayOf<uint32_t>(step, step->limits)[row];
      const uint32_t mask = ArrayOf<uint32_t>(step, step->masks)[row];
      of[i].end = min(limit, tile.end_key);
      of[i].begin = a.window != 0 && limit > a.window ? limit - a.window : 0;
      if (mask != kNone) of[i].mask = ArrayOf<uint32_t>(step, step->mask_words) + mask;
    }

    float out[kDim / 8][4] = {};
    uint32_t queries[kKeepQueries ? kDim / 16 : 1][4];
    const uint32_t query_row = line_warp * 16 + lane / 8 % 2 * 8 + lane % 8;

    for (uint32_t block = 0; block < blocks; ++block) {
      AwaitCopies<kStages - 2>();
      __syncthreads();
      if (kKeepQueries && block == 0) {
#pragma unroll
        for (int d = 0; d < kDim / 16; ++d) {
          LoadMatrices(queries[kKeepQueries ? d : 0],
                       ChunkAt<kDim>(q_tile, query_row, d * 2 + lane / 16));
        }
      }
      fetch(block + kStages - 1);
      const uint32_t k_tile = kv_tiles + block % kStages * (2 * kTileBytes);
      const uint32_t v_tile = k_tile + kTileBytes;

      // The keys of the next step are loaded while this one is multiplied.
      float scores[kScoreTiles][4] = {};
      uint32_t k[2][kScoreTiles / 2][4];
      const auto load_keys = [&](int d) {
#pragma unroll
        for (int n = 0; n < kScoreTiles / 2; ++n) {
          const uint32_t row = key_warp * kWarpKeys + n * 16 + lane / 16 * 8 + lane % 8;
          LoadMatrices(k[d % 2][n], ChunkAt<kDim>(k_tile, row, d * 2 + lane / 8 % 2));
        }
      };
      load_keys(0);
#pragma unroll
      for (int d = 0; d < kDim / 16; ++d) {
        if (d + 1 < kDim / 16) load_keys(d + 1);
        if constexpr (!kKeepQueries) {
          LoadMatrices(queries[0], ChunkAt<kDim>(q_tile, query_row, d * 2 + lane / 16));
        }
        const uint32_t(&q)[4] = queries[kKeepQueries ? d : 0];
#pragma unroll
        for (int n = 0; n < kScoreTiles; n += 2) {
          const uint32_t(&own)[4] = k[d % 2][n / 2];
          Mma(scores[n], q[0], q[1], q[2], q[3], own[0], own[1]);
          Mma(scores[n + 1], q[0], q[1], q[2], q[3], own[2], own[3]);
        }
      }

      const uint32_t first_key = begin_key + block * kKeyBlock + key_warp * kWarpKeys;
      const bool all_see = a.window == 0 && tile.has_masks == 0 &&
                           begin_key + (block + 1) * kKeyBlock <= tile.all_see;
      const auto each_score = [&](auto&& change) {
#pragma unroll
        for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) change(scores[n][i], n, i);
        }
      };
      // What is rare is apart, so that the usual instructions are close together.
      if (a.softcap != 0) {
        each_score([&](float& score, int, int) {
          score = a.softcap * tanhf(score * a.scale / a.softcap);
        });
      }
      if (!all_see) {
        each_score([&](float& score, int n, int i) {
          if (!of[i / 2].Sees(first_key + n * 8 + lane % 4 * 2 + i % 2)) score = -INFINITY;
        });
      }
      float shrinks[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float most = of[i].most;
#pragma unroll
        for (int n = 0; n < kScoreTiles; ++n) {
          most = fmaxf(most, fmaxf(scores[n][2 * i], scores[n][2 * i + 1]));
        }
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 2));
        const float base = most == -INFINITY ? 0.0F : most * to_log2;
        shrinks[i] = Exp2(of[i].most * to_log2 - base);
        of[i].most = most;
        of[i].sum *= shrinks[i];
#pragma unroll
        for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const float weight = Exp2(fmaf(scores[n][2 * i + j], to_log2, -base));
            scores[n][2 * i + j] = weight;
            of[i].sum += weight;
          }
        }
      }
      // Usually no new key is the best so far.
      if (__any_sync(0xFFFFFFFFU, shrinks[0] != 1 || shrinks[1] != 1)) {
#pragma unroll
        for (int d = 0; d < kDim / 8; ++d) {
#pragma unroll
          for (int i = 0; i < 4; ++i) out[d][i] *= shrinks[i / 2];
        }
      }
#pragma unroll
      for (int n = 0; n < kScoreTiles; n += 2) {
        const uint32_t p0 = PackBf16(scores[n][0], scores[n][1]);
        const uint32_t p1 = PackBf16(scores[n][2], scores[n][3]);
        const uint32_t p2 = PackBf16(scores[n + 1][0], scores[n + 1][1]);
        const uint32_t p3 = PackBf16(scores[n + 1][2], scores[n + 1][3]);
        const uint32_t row = key_warp * kWarpKeys + n * 8 + lane / 8 % 2 * 8 + lane % 8;
        uint32_t v[2][4];
        LoadTransposed(v[0], ChunkAt<kDim>(v_tile, row, lane / 16));
#pragma unroll
        for (int d = 0; d < kDim / 8; d += 2) {
          if (d + 2 < kDim / 8) {
            LoadTransposed(v[(d / 2 + 1) % 2], ChunkAt<kDim>(v_tile, row, d + 2 + lane / 16));
          }
          const uint32_t(&own)[4] = v[d / 2 % 2];
          Mma(out[d], p0, p1, p2, p3, own[0], own[1]);
          Mma(out[d + 1], p0, p1, p2, p3, own[2], own[3]);
        }
      }
    }
    // From here on, scores are powers of two.
    of[0].most *= to_log2;
    of[1].most *= to_log2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      of[i].sum += __shfl_xor_sync(0xFFFFFFFFU, of[i].sum, 1);
      of[i].sum += __shfl_xor_sync(0xFFFFFFFFU, of[i].sum, 2);
    }

    AwaitCopies<0>();
    __syncthreads();  // the tiles are free from here on
    const auto write = [&](uint32_t line, uint32_t column, float most, float sum, float x,
                           float y) {
      const TileRow to = rows[line / group];
      const size_t head = kv_head * group + line % group;
      if (column >= a.kv.head_stride) return;
      if (to.part == kNone) {
        if (a.sinks != nullptr && most != -INFINITY) {
          sum += exp2f(a.sinks[head] * kLog2E - most);
        }
        const float factor = sum > 0 ? 1 / sum : 0.0F;
        bf16* const at = static_cast<bf16*>(a.out) +
                         (to.row * static_cast<size_t>(a.heads) + head) * a.kv.head_stride + column;
        *reinterpret_cast<uint32_t*>(at) = PackBf16(x * factor, y * factor);
        return;
      }
      const size_t part = to.part * static_cast<size_t>(a.heads) + head;
      const float factor = sum > 0 ? 1 / sum : 0.0F;
      float* const at = a.parts + part * a.kv.head_stride + column;
      *reinterpret_cast<float2*>(at) = make_float2(x * factor, y * factor);
      if (column == 0) a.part_logs[part] = sum > 0 ? most + log2f(sum) : -INFINITY;
    };

    if constexpr (kKeyWarps == 1) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t line = line_warp * 16 + lane / 4 + i * 8;
        if (line >= lines) continue;
#pragma unroll
        for (int d = 0; d < kDim / 8; ++d) {
          write(line, d * 8 + lane % 4 * 2, of[i].most, of[i].sum, out[d][2 * i],
                out[d][2 * i + 1]);
        }
      }
    } else {
      // The warps' results go through shared memory and are merged.
      float* const numbers = reinterpret_cast<float*>(shared + kLines * kDim * 2);
      float* const mosts = numbers + kKeyWarps * 16 * kDim;
      float* const sums = mosts + kKeyWarps * 16;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int line = lane / 4 + i * 8;
        if (lane % 4 == 0) {
          mosts[key_warp * 16 + line] = of[i].most;
          sums[key_warp * 16 + line] = of[i].sum;
        }
#pragma unroll
        for (int d = 0; d < kDim / 8; ++d) {
          *reinterpret_cast<float2*>(
              &numbers[(key_warp * 16 + line) * kDim + d * 8 + lane % 4 * 2]) =
              make_float2(out[d][2 * i], out[d][2 * i + 1]);
        }
      }
      __syncthreads();
      for (uint32_t i = threadIdx.x; i < lines * (kDim / 2); i += kThreads) {
        const uint32_t line = i / (kDim / 2);
        const uint32_t column = i % (kDim / 2) * 2;
        float most = -INFINITY;
        for (int w = 0; w < kKeyWarps; ++w) most = fmaxf(most, mosts[w * 16 + line]);
        const float base = most == -INFINITY ? 0.0F : most;
        float sum = 0;
        float x = 0;
        float y = 0;
        for (int w = 0; w < kKeyWarps; ++w) {
          const float factor = exp2f(mosts[w * 16 + line] - base);
          sum += factor * sums[w * 16 + line];
          const float2 pair =
              *reinterpret_cast<const float2*>(&numbers[(w * 16 + line) * kDim + column]);
          x += factor * pair.x;
          y += factor * pair.y;
        }
        write(line, column, most, sum, x, y);
      }
    }
    __syncthreads();  // before the next tile's copies
  }
}

constexpr uint32_t kMergeThreads = 128;

// One block a row and head. A thread has two neighbouring numbers, and every part's numbers are
// loaded independently.
__global__ void __launch_bounds__(kMergeThreads) MergeKernel(const Attention a) {
  __shared__ float weights[kMergeThreads];
  LetNextStart();
  const uint32_t row = blockIdx.x;
  const uint32_t head = blockIdx.y;
  const RowParts parts =
      row < a.step->rows ? ArrayOf<RowParts>(a.step, a.step->row_parts)[row] : RowParts{0, 0};
  WaitForInputs();
  if (parts.count == 0) return;
  const float* const logs = a.part_logs + static_cast<size_t>(parts.first) * a.heads + head;
  const float* const numbers =
      a.parts + (static_cast<size_t>(parts.first) * a.heads + head) * a.kv.head_stride;
  const size_t stride = static_cast<size_t>(a.heads) * a.kv.head_stride;
  const uint32_t d = threadIdx.x * 2;
  float most = -INFINITY;
  float total = 0;
  float x = 0;
  float y = 0;
  for (uint32_t first = 0; first < parts.count; first += blockDim.x) {
    const uint32_t count = min(blockDim.x, parts.count - first);
    __syncthreads();
    if (threadIdx.x < count) weights[threadIdx.x] = logs[(first + threadIdx.x) * a.heads];
    __syncthreads();
    float now = most;
    for (uint32_t i = 0; i < count; ++i) now = fmaxf(now, weights[i]);
    const float base = now == -INFINITY ? 0.0F : now;
    const float shrink = exp2f(most - base);
    most = now;
    total *= shrink;
    x *= shrink;
    y *= shrink;
#pragma unroll 8
    for (uint32_t i = 0; i < count; ++i) {
      const float weight = exp2f(weights[i] - base);
      total += weight;
      if (d < a.kv.head_stride) {
        const float2 pair = *reinterpret_cast<const float2*>(numbers + (first + i) * stride + d);
        x += weight * pair.x;
        y += weight * pair.y;
      }
    }
  }
  if (a.sinks != nullptr && most != -INFINITY) total += exp2f(a.sinks[head] * kLog2E - most);
  const float inverse = total > 0 ? 1 / total : 0.0F;
  if (d < a.kv.head_stride) {
    bf16* const out = static_cast<bf16*>(a.out) +
                      (row * static_cast<size_t>(a.heads) + head) * a.kv.head_stride + d;
    *reinterpret_cast<uint32_t*>(out) = PackBf16(x * inverse, y * inverse);
  }
}

template <int kDim, int kLineWarps, int kKeyWarps, int kStages>
void RunTiles(const Attention& attention, bool large, int blocks, Stream stream) {
  const auto kernel = AttentionKernel<kDim, kLineWarps, kKeyWarps, kStages>;
  size_t shared = kLineWarps * 16 * kDim * 2 + kStages * 2 * kKeyBlock * kDim * 2;
  const size_t merge = kLineWarps * 16 * kDim * 2 + kKeyWarps * 16 * (kDim + 2) * sizeof(float);
  if (kKeyWarps > 1 && merge > shared) shared = merge;
  AllowShared(kernel, shared);
  Launch(kernel, dim3(blocks), dim3(32 * kLineWarps * kKeyWarps), shared, stream, attention, large);
}

}  // namespace

void RunSmallTiles(const Attention& attention, int processors, Stream stream) {
  const uint32_t size = attention.kv.head_stride;
  if (size <= 64) {
    RunTiles<64, 1, 4, 4>(attention, false, processors * 2, stream);
  } else if (size <= 128) {
    RunTiles<128, 1, 4, 3>(attention, false, processors * 2, stream);
  } else {
    RunTiles<256, 1, 4, 2>(attention, false, processors, stream);
  }
}

void RunLargeTiles(const Attention& attention, int processors, Stream stream) {
  const uint32_t size = attention.kv.head_stride;
  if (size <= 64) {
    RunTiles<64, 8, 1, 3>(attention, true, processors * 2, stream);
  } else if (size <= 128) {
    RunTiles<128, 8, 1, 2>(attention, true, processors, stream);
  } else {
    RunTiles<256, 4, 1, 2>(attention, true, processors, stream);
  }
}

void RunMergeParts(const Attention& attention, uint32_t rows, Stream stream) {
  const uint32_t threads = attention.kv.head_stride > 128 ? 128 : 64;
  Launch(MergeKernel, dim3(rows, attention.heads), dim3(threads), 0, stream, attention);
}

}  // namespace pie::cuda
