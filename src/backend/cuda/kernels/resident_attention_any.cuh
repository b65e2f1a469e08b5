// Attention of one row of models that are not plain (resident_step.cu): with biases, sinks, caps,
// or heads of more than 128 numbers.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/kv_line.cuh"
#include "backend/cuda/kernels/packed.cuh"
#include "backend/cuda/kernels/resident_mail.cuh"
#include "backend/cuda/kernels/resident_ring.cuh"

namespace pie::cuda {

// Attention of one piece of the keys of one key head, for the query heads of its group. The keys
// are the rows of a product with the queries; values are transposed on their way to the tensor
// cores.
class AnyPieceOfKeys {
 public:
  __device__ AnyPieceOfKeys(const ResidentStep& step, const ResidentPhase& of,
                            const RowOfStep& of_row, const ResidentLayout& layout, char* memory)
      : r(step),
        phase(of),
        row(of_row),
        room(layout),
        shared(memory),
        kv(step.kv),
        group(step.heads / kv.kv_heads),
        kv_head(blockIdx.x % kv.kv_heads),
        piece(blockIdx.x / kv.kv_heads),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        line_bytes(kv.line_bytes()) {
    const RowOfStep::Range range = row.PieceOf(phase.window, r.splits, piece);
    from = range.from;
    to = range.to;
    fresh = shared + room.fresh;
    new_key = row.new_key;
  }

  // Before the numbers of the phase before have come.
  __device__ void Begin() {
    const auto bring = [&](const float* numbers, uint32_t count) {
      if (numbers != nullptr && lane * 32 < static_cast<int>(count)) BringNear(numbers + lane * 32);
    };
    for (uint32_t head = warp; head < group + 2; head += kWarps) {
      if (phase.qkv_bias != nullptr) {
        bring(phase.qkv_bias + InQkv(head) * kv.head_stride, kv.head_stride);
      }
      bring(head < group ? phase.q_norm : phase.k_norm, r.head_size);
    }
    LoadScales(from);
  }

  __device__ void Run(RingPlace& place, uint32_t phase_number) {
    Rotate(phase_number);
    float most = -INFINITY;  // of head `warp`
    float sum = 0;           // this lane's part
    float out[2][4] = {};    // dimensions 16 × warp …, and those 128 further
    const float to_log2 = r.softcap == 0 ? r.scale * kLog2E : kLog2E;
    auto* const scores = reinterpret_cast<float*>(shared + room.scores);
    auto* const weights = shared + room.weights;
    auto* const shrinks = reinterpret_cast<float*>(shared + room.shrinks);
    for (uint32_t first = from; first < to; first += room.block_keys) {
      const Lines keys = TakeLines(place, first, 0);
      if (warp * 16 < static_cast<int>(room.block_keys)) Score(keys, scores);
      Free(keys);
      MeetConsumers();
      if (warp < static_cast<int>(group)) {
        Weigh(first, to_log2, scores + warp * kResidentKeys,
              reinterpret_cast<bf16*>(weights + warp * kWeightBytes), most, sum, shrinks[warp]);
      }
      const Lines values = TakeLines(place, first, 1);
      MeetConsumers();
      LoadScales(first + room.block_keys);
      AddValues(values, min(room.block_keys, to - first), weights, shrinks, out);
      Free(values);
    }
    Write(most, WarpSum(sum), to_log2, out, phase_number);
  }

 private:
  static constexpr float kLog2E = 1.44269504088896341F;
  static constexpr uint32_t kWeightBytes = kResidentWeightBytes;
  static constexpr uint32_t kKeysOfThread = kResidentKeys / (kConsumers / 16);

  // Keys or values of a block in bfloat16, and the stage that they came with, if it is still used.
  struct Lines {
    const char* at;
    uint32_t bytes;  // of a line
    uint64_t* free;
  };

  // The number of a head in the product's result: the group's queries, the key, the value.
  __device__ uint32_t InQkv(uint32_t head) const {
    if (head < group) return kv_head * group + head;
    return r.heads + kv_head + (head == group ? 0 : kv.kv_heads);
  }
  // The line of a key's page for this head's key (value: 0) or value (1).
  __device__ char* LayerIn(uint32_t page) const {
    return static_cast<char*>(kv.data) + page * kv.page_bytes + phase.layer_offset;
  }
  __device__ uint64_t LineOf(uint32_t slot, uint32_t value) const {
    return static_cast<uint64_t>(value * kv.kv_heads + kv_head) * kv.page_tokens + slot;
  }
  __device__ uint8_t* ScaleAt(uint32_t key, uint32_t value) const {
    const uint32_t page = kv.page_shift != kNone ? key >> kv.page_shift : key / kv.page_tokens;
    return reinterpret_cast<uint8_t*>(LayerIn(row.pages[page]) + kv.scales_at()) +
           LineOf(key - page * kv.page_tokens, value);
  }

  // Waits for a block's keys or values, puts this step's line among them, and makes bfloat16 of
  // fp8. Values after the last are zero up to a multiple of 16.
  __device__ Lines TakeLines(RingPlace& place, uint32_t first, uint32_t value) {
    auto* const full = reinterpret_cast<uint64_t*>(shared + room.barriers);
    char* const stage = shared + room.ring + place.stage * kStageBytes;
    uint64_t* const free = full + kMostStages + place.stage;
    AwaitPhase(&full[place.stage], place.parity);
    place.Next(room.stages);
    const uint32_t count = min(room.block_keys, to - first);
    if (kv.fp8) {
      char* const tile = shared + (value == 0 ? room.keys : room.values);
      const uint32_t bytes = value == 0 ? room.key_bytes : room.value_bytes;
      Convert(stage, first, count, value, tile, bytes);
      __syncwarp();
      if (lane == 0) Arrive(free);
      MeetConsumers();
      return {tile, bytes, nullptr};
    }
    const bool has_new = new_key >= first && new_key < first + count;
    const uint32_t end = (count + 15) / 16 * 16;
    if (has_new || (value == 1 && end > count)) {
      const uint32_t chunks = line_bytes / 16;
      for (uint32_t i = threadIdx.x; i < (value == 1 ? end - count : 0) * chunks; i += kConsumers) {
        reinterpret_cast<uint4*>(stage + count * line_bytes)[i] = make_uint4(0, 0, 0, 0);
      }
      if (has_new && threadIdx.x < chunks) {
        reinterpret_cast<uint4*>(stage + (new_key - first) * line_bytes)[threadIdx.x] =
            reinterpret_cast<const uint4*>(fresh + value * room.fresh_bytes)[threadIdx.x];
      }
      ShowToCopies();
      MeetConsumers();
    }
    return {stage, line_bytes, free};
  }
  __device__ void Free(const Lines& lines) const {
    if (lines.free == nullptr) return;
    __syncwarp();
    if (lane == 0) Arrive(lines.free);
  }

  // Scales of the keys that this thread converts, and in the second byte those of their values.
  __device__ void LoadScales(uint32_t first) {
    if (!kv.fp8) return;
#pragma unroll
    for (uint32_t i = 0; i < kKeysOfThread; ++i) {
      const uint32_t key = first + threadIdx.x / 16 + i * (kConsumers / 16);
      scales[i] = 0;
      if (key < to && key != new_key) {
        scales[i] = *ScaleAt(key, 0) | static_cast<uint32_t>(*ScaleAt(key, 1)) << 8;
      }
    }
  }

  __device__ void Convert(const char* stage, uint32_t first, uint32_t count, uint32_t value,
                          char* tile, uint32_t bytes) const {
    const uint32_t chunks = line_bytes / 16;
#pragma unroll
    for (uint32_t i = 0; i < kKeysOfThread; ++i) {
      const uint32_t key = threadIdx.x / 16 + i * (kConsumers / 16);
      if (key >= room.block_keys) break;
      const bool is_new = first + key == new_key;
      const char* const own = fresh + value * room.fresh_bytes;
      const char* const line = is_new ? own : stage + key * line_bytes;
      const uint32_t scale = is_new ? *reinterpret_cast<const uint32_t*>(own + line_bytes)
                                    : scales[i] >> (8 * value) & 0xFFU;
      const uint32_t factor = scale << 7 | scale << 23;
      for (uint32_t chunk = threadIdx.x % 16; chunk < chunks; chunk += 16) {
        uint4* const target = reinterpret_cast<uint4*>(tile + key * bytes + chunk * 32);
        target[0] = target[1] = make_uint4(0, 0, 0, 0);
        if (key >= count) continue;
        const uint4 packed = reinterpret_cast<const uint4*>(line)[chunk];
        const uint2 a = PairsOfE4m3(packed.x, factor);
        const uint2 b = PairsOfE4m3(packed.y, factor);
        const uint2 c = PairsOfE4m3(packed.z, factor);
        const uint2 d = PairsOfE4m3(packed.w, factor);
        target[0] = make_uint4(a.x, a.y, b.x, b.y);
        target[1] = make_uint4(c.x, c.y, d.x, d.y);
      }
    }
  }

  // Queries of the group, and this step's key and value; one block of a key head writes these to
  // the cache.
  __device__ void Rotate(uint32_t phase_number) {
    const uint32_t stride = kv.head_stride;
    auto* const of_head = reinterpret_cast<float*>(shared + room.head_scratch) + warp * stride;
    const float* const angles =
        reinterpret_cast<const float*>(shared + room.angles) + phase.table * 2 * r.pairs;
    for (uint32_t head = warp; head < group + 2; head += kWarps) {
      const bool is_query = head < group;
      const bool is_value = head == group + 1;
      const uint32_t in_qkv = InQkv(head);
      const auto place = [&](uint32_t i) { return lane * 2 + i * 64; };
      AwaitPairs<4>(
          phase_number - phase.from,
          [&](uint32_t i) {
            return place(i) < stride ? phase.read + in_qkv * stride + place(i) : nullptr;
          },
          [&](uint32_t i, uint32_t first, uint32_t second) {
            float2 bias = make_float2(0, 0);
            if (phase.qkv_bias != nullptr) {
              bias = *reinterpret_cast<const float2*>(phase.qkv_bias + in_qkv * stride + place(i));
            }
            of_head[place(i)] = __uint_as_float(first) + bias.x;
            of_head[place(i) + 1] = __uint_as_float(second) + bias.y;
          });
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
          const float cosine = angles[i];
          const float sine = angles[r.pairs + i];
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
        const uint32_t value = is_value ? 1 : 0;
        char* const layer = LayerIn(row.now_page);
        const uint64_t in_layer = LineOf(row.now_slot, value);
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
  __device__ void Score(const Lines& keys, float* scores) const {
    float acc[4] = {};
    float other[4] = {};  // products that do not wait for one another
    const char* const top = keys.at + (warp * 16 + lane / 4) * keys.bytes;
    const char* const query = shared + room.queries + lane / 4 * room.key_bytes;
#pragma unroll 4
    for (uint32_t first = 0; first < kv.head_stride; first += 32) {
      const uint32_t at = first + lane % 4 * 8;
      uint4 a = make_uint4(0, 0, 0, 0);
      uint4 b = a;
      uint4 q = a;
      if (at < kv.head_stride) {
        a = *reinterpret_cast<const uint4*>(top + at * 2);
        b = *reinterpret_cast<const uint4*>(top + 8 * keys.bytes + at * 2);
        q = *reinterpret_cast<const uint4*>(query + at * 2);
      }
      Mma(acc, a.x, b.x, a.y, b.y, q.x, q.y);
      Mma(other, a.z, b.z, a.w, b.w, q.z, q.w);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) acc[i] += other[i];
    const uint32_t key = warp * 16 + lane / 4;
    const uint32_t head = lane % 4 * 2;
    scores[head * kResidentKeys + key] = acc[0];
    scores[(head + 1) * kResidentKeys + key] = acc[1];
    scores[head * kResidentKeys + key + 8] = acc[2];
    scores[(head + 1) * kResidentKeys + key + 8] = acc[3];
  }

  // The running softmax of a head, by one warp.
  __device__ void Weigh(uint32_t first, float to_log2, const float* scores, bf16* weights,
                        float& most, float& sum, float& shrink) const {
    constexpr uint32_t kEach = (kResidentKeys + 31) / 32;
    float of[kEach];
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
      const uint32_t in_block = i * 32 + lane;
      const uint32_t key = first + in_block;
      of[i] = in_block < room.block_keys ? scores[in_block] : -INFINITY;
      if (r.softcap != 0) of[i] = r.softcap * tanhf(of[i] * r.scale / r.softcap);
      const bool seen = in_block < room.block_keys && key < to && row.Allows(key);
      if (!seen) of[i] = -INFINITY;
    }
    float best = most;
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) best = fmaxf(best, of[i]);
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
    for (uint32_t i = 0; i < kEach; ++i) {
      if (i * 32 + lane >= room.block_keys) break;
      const float weight = Exp2(fmaf(of[i], to_log2, -base));
      sum += weight;
      weights[i * 32 + lane] = __float2bfloat16(weight);
    }
  }

  __device__ void AddValues(const Lines& values, uint32_t count, const char* weights,
                            const float* shrinks, float (&out)[2][4]) const {
    const float factors[2] = {shrinks[lane % 4 * 2], shrinks[lane % 4 * 2 + 1]};
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t dimension = half * 128 + warp * 16;
      if (dimension >= kv.head_stride) break;
#pragma unroll
      for (int i = 0; i < 4; ++i) out[half][i] *= factors[i % 2];
      const uint32_t at = SharedAddress(values.at) + (lane / 16 * 8 + lane % 8) * values.bytes +
                          (dimension + lane / 8 % 2 * 8) * 2;
#pragma unroll
      for (uint32_t key = 0; key < kResidentKeys; key += 16) {
        if (key >= count) break;
        uint32_t v[4];
        LoadTransposed(v, at + key * values.bytes);
        const auto* const pair = reinterpret_cast<const uint32_t*>(
            weights + lane / 4 * kWeightBytes + (key + lane % 4 * 2) * 2);
        Mma(out[half], v[0], v[1], v[2], v[3], pair[0], pair[4]);
      }
    }
  }

  __device__ void Write(float most, float sum, float to_log2, const float (&out)[2][4],
                        uint32_t phase_number) const {
    if (warp < static_cast<int>(group) && lane == 0) {
      Mail* const at = phase.part_scales + (piece * r.heads + kv_head * group + warp) * 2;
      Send(at, __float_as_uint(most * to_log2), phase_number);
      Send(at + 1, __float_as_uint(sum), phase_number);
    }
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t head = lane % 4 * 2 + i % 2;
        const uint32_t at = half * 128 + warp * 16 + lane / 4 + i / 2 * 8;
        if (head >= group || at >= kv.head_stride) continue;
        Send(phase.parts +
                 (static_cast<size_t>(piece) * r.heads + kv_head * group + head) * kv.head_stride +
                 at,
             __float_as_uint(out[half][i]), phase_number);
      }
    }
  }

  const ResidentStep& r;
  const ResidentPhase& phase;
  const RowOfStep& row;
  const ResidentLayout& room;
  char* const shared;
  const KvShape& kv;
  const uint32_t group;
  const uint32_t kv_head;
  const uint32_t piece;
  const int lane;
  const int warp;
  const uint32_t line_bytes;
  uint32_t from;
  uint32_t to;
  uint32_t new_key;
  char* fresh;
  uint32_t scales[kKeysOfThread];
};

// Puts the pieces of a key head together: each of its blocks does so for some of the numbers.
__device__ inline void MergeAnyPieces(const ResidentStep& r, const ResidentPhase& phase,
                                      const ResidentLayout& room, char* shared,
                                      uint32_t phase_number) {
  const KvShape& kv = r.kv;
  const uint32_t first_head = blockIdx.x % kv.kv_heads * (r.heads / kv.kv_heads);
  const uint32_t group = r.heads / kv.kv_heads;
  const uint32_t pairs = group * kv.head_stride / 2;
  const uint32_t each = (pairs + r.splits - 1) / r.splits;
  const uint32_t begin = min(blockIdx.x / kv.kv_heads * each, pairs);
  const uint32_t count = min(each, pairs - begin);
  auto* const numbers = reinterpret_cast<float2*>(shared + room.merge);  // [splits][each]
  auto* const scales = numbers + r.splits * each;                        // [splits][group]
  MeetConsumers();  // no thread uses the keys any more
  const uint32_t scale_count = r.splits * group;
  const uint32_t number_count = r.splits * count;
  for (uint32_t i = threadIdx.x; i < max(scale_count, number_count); i += kConsumers) {
    const auto at = [&](uint32_t which) -> const Mail* {
      if (which == 0) {
        if (i >= scale_count) return nullptr;
        return phase.part_scales + (i / group * r.heads + first_head + i % group) * 2;
      }
      if (i >= number_count) return nullptr;
      const size_t row = static_cast<size_t>(i / count) * r.heads + first_head;
      return phase.parts + row * kv.head_stride + 2 * (begin + i % count);
    };
    AwaitPairs<2>(phase_number, at, [&](uint32_t which, uint32_t first, uint32_t second) {
      (which == 0 ? scales : numbers)[i] =
          make_float2(__uint_as_float(first), __uint_as_float(second));
    });
  }
  MeetConsumers();
  for (uint32_t i = threadIdx.x; i < count; i += kConsumers) {
    const uint32_t in_group = (begin + i) * 2 / kv.head_stride;
    float most = -INFINITY;
    for (uint32_t s = 0; s < r.splits; ++s) most = fmaxf(most, scales[s * group + in_group].x);
    const float base = most == -INFINITY ? 0.0F : most;
    float total = 0;
    float2 sum = make_float2(0, 0);
    for (uint32_t s = 0; s < r.splits; ++s) {
      const float2 scale = scales[s * group + in_group];
      const float weight = exp2f(scale.x - base);
      total += weight * scale.y;
      sum.x += weight * numbers[s * count + i].x;
      sum.y += weight * numbers[s * count + i].y;
    }
    if (phase.sinks != nullptr && most != -INFINITY) {
      total += exp2f(phase.sinks[first_head + in_group] * 1.44269504088896341F - most);
    }
    const float inverse = total > 0 ? 1 / total : 0.0F;
    Send(phase.attended + first_head * (kv.head_stride / 2) + begin + i,
         PackBf16(sum.x * inverse, sum.y * inverse), phase_number);
  }
}

}  // namespace pie::cuda
