#include "backend/cuda/kernels/resident_step.h"

#include "backend/cuda/kernels/bulk_copies.cuh"
#include "backend/cuda/kernels/gate.cuh"
#include "backend/cuda/kernels/kv_line.cuh"
#include "backend/cuda/kernels/meetings.cuh"
#include "backend/cuda/kernels/packed.cuh"
#include "backend/cuda/kernels/resident_layout.cuh"

namespace pie::cuda {
namespace {

// The warp that asks for weights: those of this block, in the order in which they are multiplied,
// as far ahead as the ring has room.
__device__ void FetchWeights(const ResidentStep& r, const ResidentLayout& room, char* shared) {
  auto* const full = reinterpret_cast<uint64_t*>(shared + room.barriers);
  uint64_t* const empty = full + kMostStages;
  const uint32_t lane = threadIdx.x % 32;
  uint32_t stage = 0;
  uint32_t parity = 1;  // the ring begins empty
  for (uint32_t p = 0; p < r.phase_count; ++p) {
    const ResidentPhase& phase = r.phases[p];
    if (phase.input == ResidentInput::kAttention) continue;
    const uint32_t n = phase.n;
    const uint32_t k = phase.k;
    const WeightKind kind = phase.kind;
    const char* const w = static_cast<const char*>(phase.w);
    const char* const scales = static_cast<const char*>(phase.scales);
    const uint32_t tile_bytes = TileBytes(kind);
    const uint32_t scale_bytes = kTileRows * ScaleBytes(kind);
    const uint32_t spans = static_cast<uint32_t>(SpansOf(k));
    for (uint32_t tile = blockIdx.x; tile * kTileRows < n; tile += gridDim.x) {
      for (uint32_t column = 0; column < k; column += kStageColumns) {
        AwaitPhase(&empty[stage], parity);
        char* const to = shared + room.ring + stage * kStageBytes;
        if (kind == WeightKind::kBf16) {
          const uint32_t rows = min(kTileRows, n - tile * kTileRows);
          const uint32_t bytes = min(kStageColumns, k - column) * 2;
          if (lane == 0) ArriveExpecting(&full[stage], rows * bytes);
          __syncwarp();
          if (lane < rows) {
            const uint64_t row = static_cast<uint64_t>(tile) * kTileRows + lane;
            BulkCopy(to + lane * kStageRowBytes, w + (row * k + column) * 2, bytes, &full[stage]);
          }
        } else if (lane == 0) {
          const uint32_t count = min(kStageColumns / kSpan, spans - column / kSpan);
          const uint64_t first = static_cast<uint64_t>(tile) * spans + column / kSpan;
          ArriveExpecting(&full[stage], count * (tile_bytes + scale_bytes));
          BulkCopy(to, w + first * tile_bytes, count * tile_bytes, &full[stage]);
          BulkCopy(to + kStageColumns / kSpan * tile_bytes, scales + first * scale_bytes,
                   count * scale_bytes, &full[stage]);
        }
        if (++stage == room.stages) {
          stage = 0;
          parity ^= 1U;
        }
      }
    }
  }
}

// A warp's part of a stage in bfloat16: every eighth group of 32 columns.
__device__ void MultiplyDense(const char* stage, const bf16* x, uint32_t columns, int warp,
                              int lane, float (&acc)[4]) {
  const char* const top = stage + lane / 4 * kStageRowBytes;
#pragma unroll
  for (uint32_t i = 0; i < kStageColumns / 32 / kWarps; ++i) {
    const uint32_t at = (i * kWarps + warp) * 32 + lane % 4 * 8;
    uint4 a = make_uint4(0, 0, 0, 0);
    uint4 b = a;
    uint4 v = a;
    if (at < columns) {
      a = *reinterpret_cast<const uint4*>(top + at * 2);
      b = *reinterpret_cast<const uint4*>(top + 8 * kStageRowBytes + at * 2);
      v = *reinterpret_cast<const uint4*>(x + at);
    }
    Mma(acc, a.x, b.x, a.y, b.y, v.x, v.y);
    Mma(acc, a.z, b.z, a.w, b.w, v.z, v.w);
  }
}

// The same for packed weights: a span is a warp's.
template <WeightKind kKind>
__device__ void MultiplyPacked(const char* stage, const bf16* x, uint32_t columns, int warp,
                               int lane, float (&acc)[4]) {
  if (warp * kSpan >= columns) return;
  RowSpan<kKind> top;
  RowSpan<kKind> bottom;
  const char* const tile = stage + warp * TileBytes(kKind);
  const char* const scales = stage + kStageColumns / kSpan * TileBytes(kKind) +
                             warp * (kTileRows * ScaleBytes(kKind));
  top.template Load<true>(tile, scales, lane, 0);
  bottom.template Load<true>(tile, scales, lane, 1);
  float whole[4] = {};  // fp8: the span's sums
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    uint32_t a[4];
    uint32_t b[4];
    top.Unpack(g, a);
    bottom.Unpack(g, b);
    uint4 v;
    if constexpr (kKind == WeightKind::kInt6) {  // as PlaceOf has the numbers of W
      const bf16* const from = x + warp * kSpan + g * 32 + lane % 4 * 4;
      const uint2 low = *reinterpret_cast<const uint2*>(from);
      const uint2 high = *reinterpret_cast<const uint2*>(from + 16);
      v = make_uint4(low.x, low.y, high.x, high.y);
    } else {
      v = *reinterpret_cast<const uint4*>(x + warp * kSpan + g * 32 + lane % 4 * 8);
    }
    if constexpr (kKind == WeightKind::kFp8) {
      Mma(whole, a[0], b[0], a[1], b[1], v.x, v.y);
      Mma(whole, a[2], b[2], a[3], b[3], v.z, v.w);
      continue;
    }
    float part[2][4] = {};
    float(&second)[4] = kKind == WeightKind::kInt6 ? part[1] : part[0];
    Mma(part[0], a[0], b[0], a[1], b[1], v.x, v.y);
    Mma(second, a[2], b[2], a[3], b[3], v.z, v.w);
    float sums[4] = {};  // of x
    if constexpr (kKind == WeightKind::kInt4Min) {
      Mma(sums, kOnes, kOnes, kOnes, kOnes, v.x, v.y);
      Mma(sums, kOnes, kOnes, kOnes, kOnes, v.z, v.w);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const RowSpan<kKind>& row = i < 2 ? top : bottom;
      acc[i] += row.Scale(g) * part[0][i];
      if constexpr (kKind == WeightKind::kInt6) acc[i] += row.Scale(g, 1) * part[1][i];
      if constexpr (kKind == WeightKind::kInt4Min) acc[i] += row.Minimum(g) * sums[i];
    }
  }
  if constexpr (kKind == WeightKind::kFp8) {
#pragma unroll
    for (int i = 0; i < 4; ++i) acc[i] += (i < 2 ? top : bottom).Scale(0) * whole[i];
  }
}

__device__ void MultiplyStage(WeightKind kind, const char* stage, const bf16* x, uint32_t columns,
                              int warp, int lane, float (&acc)[4]) {
  switch (kind) {
    case WeightKind::kBf16:
      return MultiplyDense(stage, x, columns, warp, lane, acc);
    case WeightKind::kFp8:
      return MultiplyPacked<WeightKind::kFp8>(stage, x, columns, warp, lane, acc);
    case WeightKind::kInt8:
      return MultiplyPacked<WeightKind::kInt8>(stage, x, columns, warp, lane, acc);
    case WeightKind::kInt4:
      return MultiplyPacked<WeightKind::kInt4>(stage, x, columns, warp, lane, acc);
    case WeightKind::kInt4Min:
      return MultiplyPacked<WeightKind::kInt4Min>(stage, x, columns, warp, lane, acc);
    case WeightKind::kInt6:
      return MultiplyPacked<WeightKind::kInt6>(stage, x, columns, warp, lane, acc);
  }
}

// Where a block's consumers are in the ring.
struct RingPlace {
  uint32_t stage = 0;
  uint32_t parity = 0;
};

// The products of a phase: this block's tiles of 16 rows of W.
__device__ void MultiplyTiles(const ResidentPhase& phase, const ResidentLayout& room, char* shared,
                              RingPlace& place) {
  auto* const full = reinterpret_cast<uint64_t*>(shared + room.barriers);
  uint64_t* const empty = full + kMostStages;
  const bf16* const x = reinterpret_cast<const bf16*>(shared + room.input);
  auto* const sums = reinterpret_cast<float*>(shared + room.sums);  // [2][kWarps][16]
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const uint32_t n = phase.n;
  const uint32_t k = phase.k;
  const WeightKind kind = phase.kind;
  uint32_t turn = 0;
  for (uint32_t tile = blockIdx.x; tile * kTileRows < n; tile += gridDim.x, ++turn) {
    float acc[4] = {};
    for (uint32_t column = 0; column < k; column += kStageColumns) {
      AwaitPhase(&full[place.stage], place.parity);
      MultiplyStage(kind, shared + room.ring + place.stage * kStageBytes, x + column,
                    min(kStageColumns, k - column), warp, lane, acc);
      __syncwarp();
      if (lane == 0) Arrive(&empty[place.stage]);
      if (++place.stage == room.stages) {
        place.stage = 0;
        place.parity ^= 1U;
      }
    }
    // The row of x is in all columns of the tile; the first column's lanes have what counts.
    float* const own = sums + turn % 2 * (kWarps * kTileRows);
    if (lane % 4 == 0) {
      own[warp * kTileRows + lane / 4] = acc[0];
      own[warp * kTileRows + lane / 4 + 8] = acc[2];
    }
    MeetConsumers();
    if (warp != static_cast<int>(turn % kWarps)) continue;
    float sum = 0;
    if (lane < static_cast<int>(kTileRows)) {
#pragma unroll
      for (int i = 0; i < kWarps; ++i) sum += own[i * kTileRows + lane];
    }
    if (phase.output == ProductOutput::kGated) {
      const float up = __shfl_sync(0xFFFFFFFFU, sum, lane + 8);
      const uint32_t at = tile * 8 + lane;
      if (lane < 8 && at < n / 2) {
        static_cast<bf16*>(phase.y)[at] = __float2bfloat16(GateOf(phase.gate, sum, up));
      }
    } else {
      const uint32_t at = tile * kTileRows + lane;
      if (lane < static_cast<int>(kTileRows) && at < n) static_cast<float*>(phase.y)[at] = sum;
    }
  }
}

__device__ float SumOfConsumers(float value, float* scratch) {
  value = WarpSum(value);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  MeetConsumers();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) sum += scratch[i];
  MeetConsumers();
  return sum;
}

__device__ float4 Plus(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ float4 Times(float4 a, float4 b, float c) {
  return make_float4(a.x * c * b.x, a.y * c * b.y, a.z * c * b.z, a.w * c * b.w);
}
__device__ float SquaresOf(float4 a) {
  return a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w;
}

// x += post_norm(delta + bias), and the input of the products becomes norm(x). Every block has x.
__device__ void NormInput(const ResidentStep& r, const ResidentPhase& phase,
                          const ResidentLayout& room, char* shared) {
  auto* const x = reinterpret_cast<float4*>(shared + room.x);
  auto* const input = reinterpret_cast<uint2*>(shared + room.input);
  auto* const scratch = reinterpret_cast<float*>(shared + room.scratch);
  const auto* const delta = reinterpret_cast<const float4*>(phase.delta);
  const auto* const bias = reinterpret_cast<const float4*>(phase.bias);
  const auto* const post_norm = reinterpret_cast<const float4*>(phase.post_norm);
  const auto* const norm = reinterpret_cast<const float4*>(phase.norm);
  const uint32_t count = r.hidden / 4;
  const auto added = [&](uint32_t i) {
    const float4 value = LoadFresh(delta + i);
    return bias == nullptr ? value : Plus(value, bias[i]);
  };
  float post = 1;
  if (delta != nullptr && post_norm != nullptr) {
    float squares = 0;
    for (uint32_t i = threadIdx.x; i < count; i += kConsumers) squares += SquaresOf(added(i));
    post = rsqrtf(SumOfConsumers(squares, scratch) / r.hidden + r.epsilon);
  }
  float squares = 0;
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < count; i += kConsumers) {
    float4 value = x[i];
    if (delta != nullptr) {
      float4 add = added(i);
      if (post_norm != nullptr) add = Times(add, post_norm[i], post);
      value = Plus(value, add);
      x[i] = value;
    }
    squares += SquaresOf(value);
    if (phase.x_out != nullptr && blockIdx.x == 0) reinterpret_cast<float4*>(phase.x_out)[i] = value;
  }
  const float factor =
      norm == nullptr ? 1.0F : rsqrtf(SumOfConsumers(squares, scratch) / r.hidden + r.epsilon);
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < count; i += kConsumers) {
    float4 value = x[i];  // written by this thread
    if (norm != nullptr) value = Times(value, norm[i], factor);
    input[i] = make_uint2(PackBf16(value.x, value.y), PackBf16(value.z, value.w));
  }
}

__device__ void CopyInput(const ResidentPhase& phase, const ResidentLayout& room, char* shared) {
  auto* const input = reinterpret_cast<uint4*>(shared + room.input);
  const auto* const from = static_cast<const uint4*>(phase.copied);
#pragma unroll 8
  for (uint32_t i = threadIdx.x; i < phase.k / 8; i += kConsumers) input[i] = LoadFresh(from + i);
}

// What follows k in the input is zero up to the next span: packed weights have zeros there, and
// zero times what is not a number would not be zero.
__device__ void PadInput(uint32_t k, const ResidentLayout& room, char* shared) {
  auto* const input = reinterpret_cast<uint32_t*>(shared + room.input);
  const uint32_t end = (k + kSpan - 1) / kSpan * kSpan;
  for (uint32_t i = k / 2 + threadIdx.x; i < end / 2; i += kConsumers) input[i] = 0;
}

// Attention of one piece of the keys of one key head, for the query heads of its group. The keys
// are the rows of a product with the queries; values are transposed on their way to the tensor
// cores.
class PieceOfKeys {
 public:
  __device__ PieceOfKeys(const ResidentStep& step, const ResidentPhase& of,
                         const ResidentLayout& layout, char* memory)
      : r(step), phase(of), room(layout), shared(memory), kv(step.kv),
        group(step.heads / kv.kv_heads), kv_head(blockIdx.x % kv.kv_heads),
        piece(blockIdx.x / kv.kv_heads) {
    const StepHeader* const header = r.step;
    const uint32_t limit = ArrayOf<uint32_t>(header, header->limits)[0];
    const uint32_t mask_at = ArrayOf<uint32_t>(header, header->masks)[0];
    mask = mask_at == kNone ? nullptr
                            : ArrayOf<uint32_t>(header, header->mask_words) + mask_at;
    const uint32_t first_page = header->small_tiles + header->large_tiles == 0
                                    ? 0
                                    : ArrayOf<AttentionTile>(header, header->tiles)->first_page;
    pages = ArrayOf<uint32_t>(header, header->pages) + first_page;
    new_place = ArrayOf<uint64_t>(header, header->places)[0];
    layer_offset = phase.layer_offset;
    const uint32_t window = phase.window;
    begin = window != 0 && limit > window ? limit - window : 0;
    const uint32_t each = ((limit - begin + r.splits - 1) / r.splits + 15) / 16 * 16;
    from = min(begin + piece * each, limit);
    to = min(from + each, limit);
    blocks = (to - from + kResidentKeys - 1) / kResidentKeys;
    lane = threadIdx.x % 32;
    warp = threadIdx.x / 32;
    keys = shared + room.keys;
    values = shared + room.values;
    raw = shared + room.raw;
    fresh = shared + room.fresh;
    line_bytes = kv.line_bytes();
    chunks = line_bytes / 16;
  }

  // Before the phase's meeting: keys of earlier steps.
  __device__ void Begin() {
    FetchKeys(0);
    FetchValues(0);
  }

  __device__ void Run() {
    Rotate();
    float most = -INFINITY;  // of head `warp`
    float sum = 0;           // this lane's part
    float out[2][4] = {};    // dimensions 16 × warp …, and those 128 further
    const float to_log2 = r.softcap == 0 ? r.scale * kLog2E : kLog2E;
    auto* const scores = reinterpret_cast<float*>(shared + room.scores);
    auto* const weights = shared + room.weights;
    auto* const shrinks = reinterpret_cast<float*>(shared + room.shrinks);
    for (uint32_t block = 0; block < blocks; ++block) {
      AwaitCopies<1>();
      TakeLines(block, 0);
      MeetConsumers();
      if (warp < static_cast<int>(kResidentKeys / 16)) Score(scores);
      MeetConsumers();
      FetchKeys(block + 1);
      if (warp < static_cast<int>(group)) {
        Weigh(block, to_log2, scores + warp * kResidentKeys,
              reinterpret_cast<bf16*>(weights + warp * kWeightBytes), most, sum, shrinks[warp]);
      }
      AwaitCopies<1>();  // of the values; the next keys may still be on their way
      TakeLines(block, 1);
      MeetConsumers();
      AddValues(weights, shrinks, out);
      MeetConsumers();
      FetchValues(block + 1);
    }
    AwaitCopies<0>();
    Write(most, WarpSum(sum), to_log2, out);
  }

 private:
  static constexpr float kLog2E = 1.44269504088896341F;
  static constexpr uint32_t kWeightBytes = kResidentWeightBytes;

  __device__ uint64_t PlaceOf(uint32_t key) const {
    const uint32_t page = kv.page_shift != kNone ? key >> kv.page_shift : key / kv.page_tokens;
    return static_cast<uint64_t>(pages[page]) * kv.page_tokens + (key - page * kv.page_tokens);
  }
  __device__ char* LayerAt(uint64_t place) const {
    return static_cast<char*>(kv.data) + place / kv.page_tokens * kv.page_bytes + layer_offset;
  }
  // The line of a place's key (value: 0) or value (1) in its page's part of the layer.
  __device__ uint64_t LineOf(uint64_t place, uint32_t value) const {
    return static_cast<uint64_t>(value * kv.kv_heads + kv_head) * kv.page_tokens +
           place % kv.page_tokens;
  }
  __device__ char* LineIn(uint32_t key, uint32_t value) const {
    if (kv.fp8) return raw + (value * kResidentKeys + key) * line_bytes;
    return value == 0 ? keys + key * room.key_bytes : values + key * room.value_bytes;
  }

  __device__ void Fetch(uint32_t block, uint32_t value) {
    if (block < blocks) {
      for (uint32_t i = threadIdx.x; i < kResidentKeys * chunks; i += kConsumers) {
        const uint32_t key = i / chunks;
        const uint32_t chunk = i % chunks;
        const uint32_t at = from + block * kResidentKeys + key;
        const uint64_t place = at < to ? PlaceOf(at) : new_place;
        const bool real = place != new_place;  // this step's line is in `fresh`
        const char* source = static_cast<const char*>(kv.data);
        if (real) source = LayerAt(place) + LineOf(place, value) * line_bytes + chunk * 16;
        CopyAsync(SharedAddress(LineIn(key, value)) + chunk * 16, source, real);
      }
    }
    CommitCopies();
  }
  __device__ void FetchKeys(uint32_t block) { Fetch(block, 0); }
  __device__ void FetchValues(uint32_t block) { Fetch(block, 1); }

  // Puts this step's line where it belongs, and makes bfloat16 of fp8: what this thread fetched.
  __device__ void TakeLines(uint32_t block, uint32_t value) {
    for (uint32_t i = threadIdx.x; i < kResidentKeys * chunks; i += kConsumers) {
      const uint32_t key = i / chunks;
      const uint32_t chunk = i % chunks;
      const uint32_t at = from + block * kResidentKeys + key;
      if (at >= to) {
        if (kv.fp8) PutZeros(key, chunk, value);
        continue;
      }
      const uint64_t place = PlaceOf(at);
      const bool is_new = place == new_place;
      auto* const line = reinterpret_cast<uint4*>(LineIn(key, value)) + chunk;
      const auto* const own = reinterpret_cast<const uint4*>(fresh + value * room.fresh_bytes);
      if (is_new) *line = own[chunk];
      if (!kv.fp8) continue;
      uint32_t scale = 0;
      if (is_new) {
        scale = *reinterpret_cast<const uint32_t*>(fresh + value * room.fresh_bytes + line_bytes);
      } else {
        scale = reinterpret_cast<const uint8_t*>(LayerAt(place) +
                                                 kv.scales_at())[LineOf(place, value)];
      }
      const uint32_t factor = scale << 7 | scale << 23;
      const uint4 bytes = *line;
      uint2 pairs[4] = {PairsOfE4m3(bytes.x, factor), PairsOfE4m3(bytes.y, factor),
                        PairsOfE4m3(bytes.z, factor), PairsOfE4m3(bytes.w, factor)};
      uint4* const target = Converted(key, chunk, value);
      target[0] = make_uint4(pairs[0].x, pairs[0].y, pairs[1].x, pairs[1].y);
      target[1] = make_uint4(pairs[2].x, pairs[2].y, pairs[3].x, pairs[3].y);
    }
  }
  __device__ uint4* Converted(uint32_t key, uint32_t chunk, uint32_t value) const {
    char* const line = value == 0 ? keys + key * room.key_bytes : values + key * room.value_bytes;
    return reinterpret_cast<uint4*>(line + chunk * 32);
  }
  __device__ void PutZeros(uint32_t key, uint32_t chunk, uint32_t value) const {
    uint4* const target = Converted(key, chunk, value);
    target[0] = target[1] = make_uint4(0, 0, 0, 0);
  }

  // Queries of the group, and this step's key and value; one block of a key head writes these to
  // the cache.
  __device__ void Rotate() {
    const uint32_t stride = kv.head_stride;
    auto* const of_head = reinterpret_cast<float*>(shared + room.head_scratch) + warp * stride;
    for (uint32_t head = warp; head < group + 2; head += kWarps) {
      const bool is_query = head < group;
      const bool is_value = head == group + 1;
      const uint32_t in_qkv = is_query ? kv_head * group + head
                                       : r.heads + kv_head + (is_value ? kv.kv_heads : 0);
      for (uint32_t i = lane; i < stride; i += 32) {
        const float bias = phase.qkv_bias == nullptr ? 0.0F : phase.qkv_bias[in_qkv * stride + i];
        of_head[i] = LoadFresh(r.qkv + in_qkv * stride + i) + bias;
      }
      __syncwarp();
      const float* const norm = is_query ? phase.q_norm : phase.k_norm;
      if (norm != nullptr && !is_value) {
        float squares = 0;
        for (uint32_t i = lane; i < r.head_size; i += 32) squares += of_head[i] * of_head[i];
        const float factor = rsqrtf(WarpSum(squares) / r.head_size + r.epsilon);
        for (uint32_t i = lane; i < r.head_size; i += 32) of_head[i] *= factor * norm[i];
        __syncwarp();
      }
      if (!is_value) {
        for (uint32_t i = lane; i < r.pairs; i += 32) {
          const uint32_t first = r.neighbours ? 2 * i : i;
          const uint32_t second = r.neighbours ? 2 * i + 1 : i + r.pairs;
          const float cosine = phase.cosines[i];
          const float sine = phase.sines[i];
          const float a = of_head[first];
          const float b = of_head[second];
          of_head[first] = a * cosine - b * sine;
          of_head[second] = b * cosine + a * sine;
        }
        __syncwarp();
      }
      char* const line = is_query ? shared + room.queries + head * room.key_bytes
                                  : fresh + (is_value ? room.fresh_bytes : 0);
      auto* const words = reinterpret_cast<uint32_t*>(line);
      if (!is_query && kv.fp8) {
        const uint32_t scale = WriteFp8Line(kv, of_head, words, lane);
        if (lane == 0) words[line_bytes / 4] = scale;
      } else {
        for (uint32_t i = lane; i < stride / 2; i += 32) {
          words[i] = PackBf16(of_head[2 * i], of_head[2 * i + 1]);
        }
      }
      __syncwarp();
      if (!is_query && piece == 0) {
        char* const layer = LayerAt(new_place);
        const uint64_t in_layer = LineOf(new_place, is_value ? 1 : 0);
        auto* const cached = reinterpret_cast<uint32_t*>(layer + in_layer * line_bytes);
        for (uint32_t i = lane; i < line_bytes / 4; i += 32) cached[i] = words[i];
        if (kv.fp8 && lane == 0) {
          reinterpret_cast<uint8_t*>(layer + kv.scales_at())[in_layer] =
              static_cast<uint8_t>(words[line_bytes / 4]);
        }
      }
    }
    MeetConsumers();
  }

  // Scores of 16 keys with all queries.
  __device__ void Score(float* scores) const {
    float acc[4] = {};
    const char* const top = keys + (warp * 16 + lane / 4) * room.key_bytes;
    const char* const query = shared + room.queries + lane / 4 * room.key_bytes;
    for (uint32_t first = 0; first < kv.head_stride; first += 32) {
      const uint32_t at = first + lane % 4 * 8;
      uint4 a = make_uint4(0, 0, 0, 0);
      uint4 b = a;
      uint4 q = a;
      if (at < kv.head_stride) {
        a = *reinterpret_cast<const uint4*>(top + at * 2);
        b = *reinterpret_cast<const uint4*>(top + 8 * room.key_bytes + at * 2);
        q = *reinterpret_cast<const uint4*>(query + at * 2);
      }
      Mma(acc, a.x, b.x, a.y, b.y, q.x, q.y);
      Mma(acc, a.z, b.z, a.w, b.w, q.z, q.w);
    }
    const uint32_t key = warp * 16 + lane / 4;
    const uint32_t head = lane % 4 * 2;
    scores[head * kResidentKeys + key] = acc[0];
    scores[(head + 1) * kResidentKeys + key] = acc[1];
    scores[head * kResidentKeys + key + 8] = acc[2];
    scores[(head + 1) * kResidentKeys + key + 8] = acc[3];
  }

  // The running softmax of a head, by one warp.
  __device__ void Weigh(uint32_t block, float to_log2, const float* scores, bf16* weights,
                        float& most, float& sum, float& shrink) const {
    float of[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t key = from + block * kResidentKeys + i * 32 + lane;
      of[i] = scores[i * 32 + lane];
      if (r.softcap != 0) of[i] = r.softcap * tanhf(of[i] * r.scale / r.softcap);
      const bool seen = key < to && (mask == nullptr || (mask[key / 32] >> (key % 32) & 1U) != 0);
      if (!seen) of[i] = -INFINITY;
    }
    float best = fmaxf(most, fmaxf(of[0], of[1]));
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
      best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFU, best, offset));
    }
    const float base = best == -INFINITY ? 0.0F : best * to_log2;
    const float factor = Exp2(most * to_log2 - base);
    if (lane == 0) shrink = factor;
    most = best;
    sum *= factor;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const float weight = Exp2(fmaf(of[i], to_log2, -base));
      sum += weight;
      weights[i * 32 + lane] = __float2bfloat16(weight);
    }
  }

  __device__ void AddValues(const char* weights, const float* shrinks, float (&out)[2][4]) const {
    const float factors[2] = {shrinks[lane % 4 * 2], shrinks[lane % 4 * 2 + 1]};
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t first = half * 128 + warp * 16;
      if (first >= kv.head_stride) break;
#pragma unroll
      for (int i = 0; i < 4; ++i) out[half][i] *= factors[i % 2];
      const uint32_t row = lane / 16 * 8 + lane % 8;
      const uint32_t at =
          SharedAddress(values) + row * room.value_bytes + (first + lane / 8 % 2 * 8) * 2;
#pragma unroll
      for (uint32_t key = 0; key < kResidentKeys; key += 16) {
        uint32_t v[4];
        LoadTransposed(v, at + key * room.value_bytes);
        const auto* const pair = reinterpret_cast<const uint32_t*>(
            weights + lane / 4 * kWeightBytes + (key + lane % 4 * 2) * 2);
        Mma(out[half], v[0], v[1], v[2], v[3], pair[0], pair[4]);
      }
    }
  }

  __device__ void Write(float most, float sum, float to_log2, const float (&out)[2][4]) const {
    if (warp < static_cast<int>(group) && lane == 0) {
      float* const at = r.part_scales + (piece * r.heads + kv_head * group + warp) * 2;
      at[0] = most * to_log2;
      at[1] = sum;
    }
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t head = lane % 4 * 2 + i % 2;
        const uint32_t at = half * 128 + warp * 16 + lane / 4 + i / 2 * 8;
        if (head >= group || at >= kv.head_stride) continue;
        r.parts[(static_cast<size_t>(piece) * r.heads + kv_head * group + head) * kv.head_stride +
                at] = out[half][i];
      }
    }
  }

  const ResidentStep& r;
  const ResidentPhase& phase;
  const ResidentLayout& room;
  char* const shared;
  const KvShape& kv;
  const uint32_t group;
  const uint32_t kv_head;
  const uint32_t piece;
  const uint32_t* mask;
  const uint32_t* pages;
  uint64_t new_place;
  uint64_t layer_offset;
  uint32_t begin;
  uint32_t from;
  uint32_t to;
  uint32_t blocks;
  int lane;
  int warp;
  char* keys;
  char* values;
  char* raw;
  char* fresh;
  uint32_t line_bytes;
  uint32_t chunks;
};

// The block that completes the last piece of a key head puts the pieces together.
__device__ void MergePieces(const ResidentStep& r, const ResidentPhase& phase,
                            const ResidentLayout& room, char* shared) {
  const KvShape& kv = r.kv;
  const uint32_t kv_head = blockIdx.x % kv.kv_heads;
  const uint32_t group = r.heads / kv.kv_heads;
  uint32_t* const pieces = r.counters + 2 + kv_head;
  auto* const is_last = reinterpret_cast<uint32_t*>(shared + room.scratch);
  MeetConsumers();
  if (threadIdx.x == 0) {
    __threadfence();
    const bool last = atomicAdd(pieces, 1U) == r.splits - 1;
    if (last) *pieces = 0;
    __threadfence();
    *is_last = last ? 1 : 0;
  }
  MeetConsumers();
  if (*is_last == 0) return;
  const uint32_t pairs = kv.head_stride / 2;
  for (uint32_t i = threadIdx.x; i < group * pairs; i += kConsumers) {
    const uint32_t head = kv_head * group + i / pairs;
    const uint32_t at = i % pairs * 2;
    float most = -INFINITY;
#pragma unroll 4
    for (uint32_t s = 0; s < r.splits; ++s) {
      most = fmaxf(most, LoadFresh(r.part_scales + (s * r.heads + head) * 2));
    }
    const float base = most == -INFINITY ? 0.0F : most;
    float total = 0;
    float x = 0;
    float y = 0;
#pragma unroll 8
    for (uint32_t s = 0; s < r.splits; ++s) {
      const float2 scale = LoadFresh(
          reinterpret_cast<const float2*>(r.part_scales + (s * r.heads + head) * 2));
      const float2 numbers = LoadFresh(reinterpret_cast<const float2*>(
          r.parts + (static_cast<size_t>(s) * r.heads + head) * kv.head_stride + at));
      const float weight = exp2f(scale.x - base);
      total += weight * scale.y;
      x += weight * numbers.x;
      y += weight * numbers.y;
    }
    if (phase.sinks != nullptr && most != -INFINITY) {
      total += exp2f(phase.sinks[head] * 1.44269504088896341F - most);
    }
    const float inverse = total > 0 ? 1 / total : 0.0F;
    reinterpret_cast<uint32_t*>(r.attended)[(head * kv.head_stride + at) / 2] =
        PackBf16(x * inverse, y * inverse);
  }
}

__device__ void CopyPhase(const ResidentPhase* from, ResidentPhase* to) {
  if (threadIdx.x < sizeof(ResidentPhase) / 8) {
    reinterpret_cast<uint64_t*>(to)[threadIdx.x] =
        reinterpret_cast<const uint64_t*>(from)[threadIdx.x];
  }
}

__device__ void RunPhases(const ResidentStep& r, const ResidentLayout& room, char* shared) {
  auto* const x = reinterpret_cast<float4*>(shared + room.x);
  auto* const entries = reinterpret_cast<ResidentPhase*>(shared + room.phases);
  WaitForInputs();
  for (uint32_t i = threadIdx.x; i < r.hidden / 4; i += kConsumers) {
    x[i] = LoadFresh(reinterpret_cast<const float4*>(r.x) + i);
  }
  CopyPhase(r.phases, entries);
  MeetConsumers();
  RingPlace place;
  uint32_t meetings = 0;
  bool must_meet = false;
  for (uint32_t p = 0; p < r.phase_count; ++p) {
    const ResidentPhase& phase = entries[p % 2];
    if (p + 1 < r.phase_count) CopyPhase(r.phases + p + 1, entries + (p + 1) % 2);
    const auto meet = [&] {
      if (must_meet) AwaitMeeting(r.counters, ++meetings * gridDim.x);
    };
    if (phase.input == ResidentInput::kAttention) {
      if (blockIdx.x < r.kv.kv_heads * r.splits) {
        PieceOfKeys piece(r, phase, room, shared);
        piece.Begin();
        meet();
        piece.Run();
        MergePieces(r, phase, room, shared);
      } else {
        meet();
      }
    } else {
      meet();
      if (phase.input == ResidentInput::kNormed) NormInput(r, phase, room, shared);
      if (phase.input == ResidentInput::kCopied) CopyInput(phase, room, shared);
      if (phase.input != ResidentInput::kSame) {
        PadInput(phase.k, room, shared);
        MeetConsumers();
      }
      MultiplyTiles(phase, room, shared, place);
    }
    must_meet = phase.meets;
    MeetConsumers();
    if (must_meet) ArriveAtMeeting(r.counters);
  }
  if (threadIdx.x == 0 && atomicAdd(r.counters + 1, 1U) == gridDim.x - 1) {
    r.counters[0] = 0;
    r.counters[1] = 0;
  }
}

__global__ void __launch_bounds__(kConsumers + 32, 1)
    ResidentStepKernel(const ResidentStep r, const ResidentLayout room) {
  PIE_DYNAMIC_SHARED(char, shared);
  LetNextStart();
  auto* const full = reinterpret_cast<uint64_t*>(shared + room.barriers);
  if (threadIdx.x == 0) {
    for (uint32_t i = 0; i < room.stages; ++i) {
      InitBarrier(full + i, 1);
      InitBarrier(full + kMostStages + i, kWarps);
    }
  }
  __syncthreads();
  if (threadIdx.x >= kConsumers) {
    FetchWeights(r, room, shared);
    WaitForInputs();
  } else {
    RunPhases(r, room, shared);
  }
}

}  // namespace

uint32_t ResidentSplits(uint32_t kv_heads) {
  return max(1U, ResidentBlocks() / kv_heads);
}

bool CanRunResident(const ResidentStep& step) {
  const ResidentLayout room = LayoutOf(step);
  return room.stages >= kLeastStages && step.kv.kv_heads <= ResidentBlocks() &&
         step.heads / step.kv.kv_heads <= kMostResidentGroup &&
         step.kv.head_stride <= 256 && CanMeet(ResidentStepKernel, kConsumers + 32, room.bytes);
}

void RunResidentStep(const ResidentStep& step, Stream stream) {
  const ResidentLayout room = LayoutOf(step);
  AllowShared(ResidentStepKernel, room.bytes);
  LaunchTogether(ResidentStepKernel, dim3(ResidentBlocks()), dim3(kConsumers + 32), room.bytes,
                 stream, step, room);
}

}  // namespace pie::cuda
