// Large tiles of attention by Hopper's products of warp groups. A block's warp groups have roles:
// one brings queries, keys and values to shared memory, some blocks of keys ahead, and two
// multiply, with 64 of a tile's lines each. While a group weighs the scores of a block of keys, the
// product of the block before with its values runs, and the products of the other group.
//
// Keys and values come in boxes of a page's lines (bulk_copies.cuh) if the shape of the pages
// allows it (DescribeLines). Otherwise, or if they are in fp8, another warp group copies and
// converts them.
#include <numeric>

#include "backend/cuda/kernels/attention_copies.cuh"

namespace pie::cuda {
namespace {

// The keys of a page that one copy brings.
uint32_t BoxRows(uint32_t page_tokens) {
  return std::gcd(page_tokens, kKeyBlock);
}

#if PIE_HAS_WGMMA

// A thread's two lines of every 16.
struct TwoLines {
  LineView of[2];
  float most[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // of this thread's weights
};

// scores = cap × tanh(scores × scale / cap), which is cap × (1 - 2 / (exp(2 x) + 1)).
template <int kTiles>
__device__ void Cap(float scale, float cap, float (&scores)[kTiles][4]) {
  const float factor = 2 * kLog2E * scale / cap;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[n][i] = cap - __fdividef(2 * cap, Exp2(scores[n][i] * factor) + 1);
    }
  }
}

// Takes away the scores of keys that a line does not see.
template <int kTiles>
__device__ void Hide(const uint32_t* masks, bool has_masks, uint32_t first_key,
                     const TwoLines& lines, float (&scores)[kTiles][4]) {
  const uint32_t own = threadIdx.x % 4 * 2;  // the thread's first key of every 8
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int begin = static_cast<int>(lines.of[i].begin) - static_cast<int>(first_key + own);
    const int end = static_cast<int>(lines.of[i].end) - static_cast<int>(first_key + own);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (n * 8 + j < begin || n * 8 + j >= end) scores[n][2 * i + j] = -INFINITY;
      }
    }
    if (!has_masks || lines.of[i].mask == kNone) continue;
    const uint32_t* const mask = masks + lines.of[i].mask;
#pragma unroll
    for (int word = 0; word < kTiles / 4; ++word) {
      const uint32_t key = first_key + word * 32;
      const uint32_t bits = key < lines.of[i].end ? mask[key / 32] >> own : 0;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if ((bits >> (n * 8 + j) & 1U) == 0) scores[word * 4 + n][2 * i + j] = -INFINITY;
        }
      }
    }
  }
}

// As Weigh (attention_tile.cuh), for scores that were capped and hidden before.
template <int kTiles>
__device__ void WeighAll(float to_log2, TwoLines& lines, float (&scores)[kTiles][4],
                         float (&shrinks)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float most[2] = {lines.most[i], -INFINITY};
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      most[n % 2] = fmaxf(most[n % 2], fmaxf(scores[n][2 * i], scores[n][2 * i + 1]));
    }
    most[0] = fmaxf(most[0], most[1]);
    most[0] = fmaxf(most[0], __shfl_xor_sync(0xFFFFFFFFU, most[0], 1));
    most[0] = fmaxf(most[0], __shfl_xor_sync(0xFFFFFFFFU, most[0], 2));
    const float base = most[0] == -INFINITY ? 0.0F : most[0] * to_log2;
    shrinks[i] = Exp2(lines.most[i] * to_log2 - base);
    lines.most[i] = most[0];
    float sum[2] = {lines.sum[i] * shrinks[i], 0};
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float weight = Exp2(fmaf(scores[n][2 * i + j], to_log2, -base));
        scores[n][2 * i + j] = weight;
        sum[j] += weight;
      }
    }
    lines.sum[i] = sum[0] + sum[1];
  }
}

// Writes a group's results: rows' outputs, or partial results.
template <int kTiles>
__device__ void WriteLines(const Attention& a, uint32_t kv_head, uint32_t first_line, float to_log2,
                           const TwoLines& lines, const float (&out)[kTiles][4]) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t size = a.kv.head_stride;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float most = lines.most[i] * to_log2;
    float sum = lines.sum[i];
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    const uint32_t result = lines.of[i].result;
    const bool real = result != kNone;
    const bool is_part = (result & kIsPart) != 0;
    const size_t at = result & ~kIsPart;
    if (a.sinks != nullptr && !is_part && most != -INFINITY) {
      const uint32_t group = a.heads / a.kv.kv_heads;
      const uint32_t head = kv_head * group + (first_line + i * 8) % group;
      sum += exp2f(a.sinks[head] * kLog2E - most);
    }
    const float factor = sum > 0 ? 1 / sum : 0.0F;
    if (real && is_part && lane % 4 == 0) {
      a.part_logs[at] = sum > 0 ? most + log2f(sum) : -INFINITY;
    }
    // Neighbouring threads exchange numbers, so that each writes four in a row of every other tile.
    const bool odd = lane % 2 != 0;
#pragma unroll
    for (int d = 0; d < kTiles; d += 2) {
      const uint32_t column = (d + (odd ? 1 : 0)) * 8 + lane % 4 / 2 * 4;
      const float x[4] = {out[d][2 * i] * factor, out[d][2 * i + 1] * factor,
                          out[d + 1][2 * i] * factor, out[d + 1][2 * i + 1] * factor};
      const float two[2] = {__shfl_xor_sync(0xFFFFFFFFU, odd ? x[0] : x[2], 1),
                            __shfl_xor_sync(0xFFFFFFFFU, odd ? x[1] : x[3], 1)};
      const float4 four =
          odd ? make_float4(two[0], two[1], x[2], x[3]) : make_float4(x[0], x[1], two[0], two[1]);
      if (!real || column >= size) continue;
      if (is_part) {
        *reinterpret_cast<float4*>(a.parts + at * size + column) = four;
      } else {
        *reinterpret_cast<uint2*>(static_cast<bf16*>(a.out) + at * size + column) =
            make_uint2(PackBf16(four.x, four.y), PackBf16(four.z, four.w));
      }
    }
  }
}

// A warp group: all tiles' products of its lines. kTurns: the groups take turns to begin products,
// so that one weighs while the other's products run.
template <int kDim, int kKeys, int kStages>
__device__ void MultiplyLines(const Attention& a, uint32_t items, uint32_t group,
                              Shared<kDim, kKeys, kStages>& shared) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t first_line = threadIdx.x / 32 % 4 * 16 + lane / 4;  // of the group's
  const uint32_t queries = SharedAddress(shared.queries[group]);
  const uint32_t* const masks = ArrayOf<uint32_t>(a.step, a.step->mask_words);
  const float to_log2 = ToLog2(a);
  const uint32_t turn = 3 + group;
  const uint32_t other_turn = 4 - group;
  const bool never = a.heads == 0;
  if (group == 1) PassTurn(other_turn);
  const auto release = [&](uint64_t* barrier) {
    __syncwarp();
    if (lane == 0) Arrive(barrier);
  };
  Ring<kStages> next;  // whose scores come next …
  Ring<kStages> last;  // … and whose values
  uint32_t parity = 0;
  ForEachItem(items, [&](uint32_t) {
    AwaitPhase(&shared.queries_full[group], parity);
    parity ^= 1U;
    const GroupView& view = shared.views[group];
    const uint32_t begin_key = view.begin_key;
    const uint32_t end_key = view.end_key;
    const uint32_t all_from = view.all_from;
    const uint32_t all_to = view.all_to;
    const uint32_t kv_head = view.kv_head;
    const bool has_masks = view.has_masks != 0;
    TwoLines lines;
    lines.of[0] = view.of[first_line];
    lines.of[1] = view.of[first_line + 8];
    float out[kDim / 8][4] = {};
    float scores[kKeys / 8][4];
    uint32_t weights[kKeys / 16][4];  // of the block before, in bfloat16

    const auto begin_scores = [&] {
      const uint32_t keys = SharedAddress(shared.stages[next.stage].keys);
#pragma unroll
      for (uint32_t d = 0; d < kDim / 16; ++d) {
        const uint32_t along = d % 4 * 32;
        GroupScores(scores, OperandAt(queries + d / 4 * (kGroupLines * 128) + along, kEight, 0),
                    OperandAt(keys + d / 4 * (kKeys * 128) + along, kEight, 0), d > 0);
      }
      CommitGroupProducts();
    };
    const auto begin_values = [&] {
      const uint32_t values = SharedAddress(shared.stages[last.stage].values);
#pragma unroll
      for (uint32_t k = 0; k < kKeys / 16; ++k) {
        GroupOutputs(out, weights[k][0], weights[k][1], weights[k][2], weights[k][3],
                     OperandAt(values + k * 2 * kEight, kEight, kKeys * 128));
      }
      CommitGroupProducts();
    };
    const auto weigh = [&](uint32_t first, float(&shrinks)[2]) {
      release(&shared.keys_free[next.stage]);
      next.Next();
      if (first + kKeys >= end_key) release(&shared.queries_free[group]);
      if (a.softcap != 0) Cap(a.scale, a.softcap, scores);
      if (has_masks || first < all_from || first + kKeys > all_to) {
        Hide(masks, has_masks, first, lines, scores);
      }
      WeighAll(to_log2, lines, scores, shrinks);
    };
    const auto pack = [&] {
#pragma unroll
      for (uint32_t k = 0; k < kKeys / 16; ++k) {
        weights[k][0] = PackBf16(scores[2 * k][0], scores[2 * k][1]);
        weights[k][1] = PackBf16(scores[2 * k][2], scores[2 * k][3]);
        weights[k][2] = PackBf16(scores[2 * k + 1][0], scores[2 * k + 1][1]);
        weights[k][3] = PackBf16(scores[2 * k + 1][2], scores[2 * k + 1][3]);
      }
    };

    if (begin_key < end_key) {
      float shrinks[2];
      AwaitPhase(&shared.keys_full[next.stage], next.parity);
      AwaitTurn(turn);
      BeginGroupProducts();
      begin_scores();
      PassTurn(other_turn);
      AwaitGroupProducts<0>();
      Settle(scores);
      weigh(begin_key, shrinks);
      pack();
      for (uint32_t first = begin_key + kKeys; first < end_key; first += kKeys) {
        AwaitPhase(&shared.keys_full[next.stage], next.parity);
        AwaitPhase(&shared.values_full[last.stage], last.parity);
        AwaitTurn(turn);
        BeginGroupProducts();
        begin_scores();
        begin_values();
        PassTurn(other_turn);
        AwaitGroupProducts<1>();
        Settle(scores);
        weigh(first, shrinks);
        AwaitGroupProducts<0>();
        Settle(out);
        KeepUntilHere(weights, never);
        release(&shared.values_free[last.stage]);
        last.Next();
        Shrink(out, shrinks);
        pack();
      }
      AwaitPhase(&shared.values_full[last.stage], last.parity);
      const uint32_t keys = (end_key - begin_key - 1) % kKeys + 1;
      if (keys < kKeys) {  // a weight of 0 times NaN would still be NaN
        char* const values = shared.stages[last.stage].values;
        for (uint32_t i = threadIdx.x % 128; i < (kKeys - keys) * (kDim / 8); i += 128) {
          const uint32_t key = keys + i / (kDim / 8);
          const uint32_t chunk = i % (kDim / 8);
          *reinterpret_cast<uint4*>(values + chunk / 8 * (kKeys * 128) + key * 128 +
                                    chunk % 8 * 16) = make_uint4(0, 0, 0, 0);
        }
        ShowToGroupProducts();
        SyncGroup(1 + group);
      }
      BeginGroupProducts();
      begin_values();
      AwaitGroupProducts<0>();
      Settle(out);
      release(&shared.values_free[last.stage]);
      last.Next();
    } else {
      release(&shared.queries_free[group]);
    }
    WriteLines(a, kv_head, group * kGroupLines + first_line, to_log2, lines, out);
  });
  if (group == 0) AwaitTurn(turn);
}

#endif

enum class Source : uint8_t { kBoxes, kLines, kFp8Lines };  // of keys and values

template <int kDim, int kKeys, int kStages, Source kSource>
__global__ void __launch_bounds__(kSource == Source::kBoxes ? 384 : 512, 1)
    HopperAttentionKernel(const Attention a, const __grid_constant__ MatrixMap lines,
                          uint32_t box_rows) {
#if PIE_HAS_WGMMA
  constexpr bool kBoxes = kSource == Source::kBoxes;
  constexpr uint32_t kFirstGroup = kBoxes ? 1 : 2;  // of those that multiply
  PIE_DYNAMIC_SHARED(char, memory);
  auto& shared = *reinterpret_cast<Shared<kDim, kKeys, kStages>*>(memory);
  LetNextStart();
  const StepHeader* const step = a.step;
  const AttentionTile* const tiles = ArrayOf<AttentionTile>(step, step->tiles) + step->small_tiles;
  const uint32_t items = step->large_tiles * a.kv.kv_heads;
  if (threadIdx.x == 0) {
    constexpr uint32_t kWarps = 4;  // of a group
    for (uint32_t i = 0; i < 2; ++i) {
      InitBarrier(&shared.queries_full[i], 1);
      InitBarrier(&shared.queries_free[i], kWarps);
    }
    for (uint32_t i = 0; i < kStages; ++i) {
      InitBarrier(&shared.keys_full[i], kBoxes ? 1 : kWarps);
      InitBarrier(&shared.values_full[i], kBoxes ? 1 : kWarps);
      InitBarrier(&shared.keys_free[i], 2 * kWarps);
      InitBarrier(&shared.values_free[i], 2 * kWarps);
    }
  }
  if (blockIdx.x < items) TileView(a, tiles, blockIdx.x).BringFirstKeys();
  __syncthreads();
  WaitForInputs();
  const uint32_t group = threadIdx.x / 128;
  if (group == 0) {
    GiveRegisters<kBoxes ? 56 : 48>();
    const uint32_t warp = threadIdx.x / 32;
    if (warp < 2) {
      BringQueries<kDim>(a, tiles, items, warp, shared.queries[warp], shared.views[warp],
                         &shared.queries_full[warp], &shared.queries_free[warp]);
    } else if (kBoxes && warp == 2) {
      BringKeys(a, tiles, items, lines, box_rows, shared);
    }
  } else if (group < kFirstGroup) {
    GiveRegisters<104>();
    CarryKeys<kDim, kKeys, kStages, kSource == Source::kFp8Lines>(a, tiles, items, shared);
  } else {
    TakeRegisters<kBoxes ? 224 : 176>();
    MultiplyLines<kDim, kKeys, kStages>(a, items, group - kFirstGroup, shared);
  }
#endif
}

template <int kDim, int kKeys, int kStages, Source kSource>
void Run(const Attention& attention, int processors, Stream stream) {
  const auto kernel = HopperAttentionKernel<kDim, kKeys, kStages, kSource>;
  constexpr bool kBoxes = kSource == Source::kBoxes;
  constexpr size_t kShared = sizeof(Shared<kDim, kKeys, kStages>);
  static_assert(kShared <= 227 * 1024);
  AllowShared(kernel, kShared);
  Launch(kernel, dim3(processors), dim3(kBoxes ? 384 : 512), kShared, stream, attention,
         kBoxes ? *attention.kv_lines : MatrixMap{}, BoxRows(attention.kv.page_tokens));
}

}  // namespace

bool DescribeLines(const KvShape& kv, uint64_t pages, MatrixMap* map) {
  const uint32_t box_rows = BoxRows(kv.page_tokens);
  if (kv.fp8 || kv.head_stride > 128 || box_rows % 8 != 0 || kv.page_bytes % kv.line_bytes() != 0 ||
      kv.layer_offset % kv.line_bytes() != 0) {
    return false;
  }
  return DescribeMatrix(kv.data, pages * (kv.page_bytes / kv.line_bytes()), kv.head_stride,
                        box_rows, map);
}

void RunHopperTiles(const Attention& attention, int processors, Stream stream) {
  const bool narrow = attention.kv.head_stride <= 64;
  if (attention.kv.fp8) {
    narrow ? Run<64, 64, 8, Source::kFp8Lines>(attention, processors, stream)
           : Run<128, 64, 6, Source::kFp8Lines>(attention, processors, stream);
  } else if (attention.kv_lines == nullptr) {
    narrow ? Run<64, 64, 8, Source::kLines>(attention, processors, stream)
           : Run<128, 64, 6, Source::kLines>(attention, processors, stream);
  } else {
    narrow ? Run<64, 128, 4, Source::kBoxes>(attention, processors, stream)
           : Run<128, 128, 3, Source::kBoxes>(attention, processors, stream);
  }
}

}  // namespace pie::cuda
