// Attention of one row of plain models (resident_step.cu).
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/kv_line.cuh"
#include "backend/cuda/kernels/packed.cuh"
#include "backend/cuda/kernels/resident_mail.cuh"
#include "backend/cuda/kernels/resident_ring.cuh"

namespace pie::cuda {

// Attention of one piece of the keys of one key head, for the query heads of its group. Each warp
// attends to 16 keys at a time, from the scores to the sums of values, and warps add their results
// at the end. Scores are a product of the queries (rows) with keys; their places in registers are
// those that the product of values and weights wants.
template <class Model>
class PieceOfKeys {
 public:
  __device__ PieceOfKeys(const ResidentStep& step, const RowOfStep& of_row,
                         const ResidentLayout& layout, char* memory)
      : r(step),
        row(of_row),
        room(layout),
        shared(memory),
        kv(step.kv),
        group(step.heads / kv.kv_heads),
        kv_head(blockIdx.x % kv.kv_heads),
        piece(blockIdx.x / kv.kv_heads),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        pairs_of_head(kv.head_stride / 2),
        merged((group * pairs_of_head + step.splits - 1) / step.splits),
        head_of_thread(threadIdx.x / pairs_of_head) {
    SetWindow(0);
  }

  __device__ void Run(const ResidentPhase& phase, RingPlace& place, uint32_t phase_number) {
    if (phase.window != window) SetWindow(phase.window);
    if (kFp8) LoadScales(phase, from);
    Rotate(phase, phase_number);
    Attend(phase, place, phase_number);
  }

  // Puts the pieces of a key head together: each of its blocks does so for some of the numbers.
  __device__ void Merge(const ResidentPhase& phase, uint32_t phase_number) const {
    const uint32_t first_head = kv_head * group;
    const uint32_t begin = min(piece * merged, group * pairs_of_head);
    const uint32_t count = min(merged, group * pairs_of_head - begin);
    auto* const numbers = reinterpret_cast<float2*>(shared + room.merge);  // [splits][count]
    auto* const scales = numbers + r.splits * merged;                      // [splits][group]
    const uint32_t scale_count = r.splits * group;
    const uint32_t number_count = r.splits * count;
    for (uint32_t i = threadIdx.x; i < max(scale_count, number_count); i += kConsumers) {
      const auto at = [&](uint32_t which) -> const Mail* {
        if (which == 0) {
          if (i >= scale_count) return nullptr;
          return phase.part_scales + (i / group * r.heads + first_head + i % group) * 2;
        }
        if (i >= number_count) return nullptr;
        const size_t of_piece = static_cast<size_t>(i / count) * r.heads + first_head;
        return phase.parts + of_piece * kv.head_stride + 2 * (begin + i % count);
      };
      AwaitPairs<2>(phase_number, at, [&](uint32_t which, uint32_t first, uint32_t second) {
        (which == 0 ? scales : numbers)[i] =
            make_float2(__uint_as_float(first), __uint_as_float(second));
      });
    }
    MeetConsumers();
    // 16 lanes, or all 32, have the pieces of a pair of numbers.
    const uint32_t lanes = r.splits <= 16 ? 16 : 32;
    for (uint32_t of_warp = warp * (32 / lanes); of_warp < count; of_warp += kConsumers / lanes) {
      const uint32_t i = of_warp + lane / lanes;
      const uint32_t in_group = (begin + i) / pairs_of_head;
      float best = -INFINITY;
      for (uint32_t s = lane % lanes; s < r.splits && i < count; s += lanes) {
        best = fmaxf(best, scales[s * group + in_group].x);
      }
      for (uint32_t offset = lanes / 2; offset > 0; offset >>= 1) {
        best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFU, best, offset));
      }
      const float base = best == -INFINITY ? 0.0F : best;
      float total = 0;
      float2 sum = make_float2(0, 0);
      for (uint32_t s = lane % lanes; s < r.splits && i < count; s += lanes) {
        const float2 scale = scales[s * group + in_group];
        const float2 number = numbers[s * count + i];
        const float weight = Exp2(scale.x - base);
        total += weight * scale.y;
        sum.x += weight * number.x;
        sum.y += weight * number.y;
      }
      for (uint32_t offset = lanes / 2; offset > 0; offset >>= 1) {
        total += __shfl_xor_sync(0xFFFFFFFFU, total, offset);
        sum.x += __shfl_xor_sync(0xFFFFFFFFU, sum.x, offset);
        sum.y += __shfl_xor_sync(0xFFFFFFFFU, sum.y, offset);
      }
      if (lane % lanes != 0 || i >= count) continue;
      const float inverse = total > 0 ? 1 / total : 0.0F;
      Send(phase.attended + first_head * pairs_of_head + begin + i,
           PackBf16(sum.x * inverse, sum.y * inverse), phase_number);
    }
  }

 private:
  static constexpr float kLog2E = 1.44269504088896341F;
  static constexpr bool kFp8 = Model::kFp8Keys;
  static constexpr uint32_t kChunks = 2;  // of 64 dimensions
  // Results of values in registers: [64 dimensions][pair of neighbours in each 8]
  using Out = float[kChunks][4][4];

  __device__ void SetWindow(uint32_t of_phase) {
    window = of_phase;
    const RowOfStep::Range range = row.PieceOf(window, r.splits, piece);
    from = range.from;
    to = range.to;
  }

  // The number of a head in the product's result: the group's queries, the key, the value.
  __device__ uint32_t InQkv(uint32_t head) const {
    if (head < group) return kv_head * group + head;
    return r.heads + kv_head + (head == group ? 0 : kv.kv_heads);
  }
  __device__ char* LayerIn(const ResidentPhase& phase, uint32_t page) const {
    return static_cast<char*>(kv.data) + page * kv.page_bytes + phase.layer_offset;
  }
  // The line of a page for this head's key (value: 0) or value (1).
  __device__ uint64_t LineOf(uint32_t slot, uint32_t value) const {
    return static_cast<uint64_t>(value * kv.kv_heads + kv_head) * kv.page_tokens + slot;
  }
  // The key of this lane's i-th score.
  __device__ uint32_t KeyOf(uint32_t i) const {
    return warp * kKeysOfWarp + i / 2 * 8 + lane % 4 * 2 + i % 2;
  }

  // Scales of the keys whose scores this lane has, and of their values, if they are cached.
  __device__ void LoadScales(const ResidentPhase& phase, uint32_t first) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t key = first + KeyOf(i);
      key_scales[i] = value_scales[i] = 0;
      if (key >= to || key == row.new_key) continue;
      const uint32_t page = kv.page_shift != kNone ? key >> kv.page_shift : key / kv.page_tokens;
      const auto* const scales =
          reinterpret_cast<const uint8_t*>(LayerIn(phase, row.pages[page]) + kv.scales_at());
      const uint32_t slot = key - page * kv.page_tokens;
      key_scales[i] = scales[LineOf(slot, 0)];
      value_scales[i] = scales[LineOf(slot, 1)];
    }
  }

  // Queries of the group, and this step's key and value; one block of a key head writes these to
  // the cache. Each warp has a head, and each lane pairs of neighbours.
  __device__ void Rotate(const ResidentPhase& phase, uint32_t phase_number) {
    const bool has_new = row.new_key >= from && row.new_key < to;
    for (uint32_t head = warp; head < group + 2; head += kWarps) {
      if (head >= group && piece != 0 && !has_new) continue;
      RotateHead(phase, head, phase_number);
    }
    MeetConsumers();
  }

  __device__ void RotateHead(const ResidentPhase& phase, uint32_t head, uint32_t phase_number) {
    constexpr uint32_t kPairs = kChunks;
    const uint32_t stride = kv.head_stride;
    auto* const of_head = reinterpret_cast<float*>(shared + room.head_scratch) + warp * stride;
    const float* const cosines =
        reinterpret_cast<const float*>(shared + room.angles) + phase.table * 2 * r.pairs;
    const float* const sines = cosines + r.pairs;
    const bool is_query = head < group;
    const bool is_value = head == group + 1;
    const uint32_t in_qkv = InQkv(head);
    const float* const norm = is_value ? nullptr : is_query ? phase.q_norm : phase.k_norm;
    const auto place = [&](uint32_t i) { return lane * 2 + i * 64; };
    // Before the numbers come.
    float2 v[kPairs];
    float2 weight[kPairs];
#pragma unroll
    for (uint32_t i = 0; i < kPairs; ++i) {
      v[i] = make_float2(0, 0);
      weight[i] = make_float2(1, 1);
      if (place(i) >= stride) continue;
      if (norm != nullptr && place(i) < r.head_size) {
        weight[i] = *reinterpret_cast<const float2*>(norm + place(i));
      }
    }
    AwaitPairs<kPairs>(
        phase_number - phase.from,
        [&](uint32_t i) {
          return place(i) < stride ? phase.read + in_qkv * stride + place(i) : nullptr;
        },
        [&](uint32_t i, uint32_t first, uint32_t second) {
          v[i].x += __uint_as_float(first);
          v[i].y += __uint_as_float(second);
        });
    if (norm != nullptr) {
      float squares = 0;
#pragma unroll
      for (uint32_t i = 0; i < kPairs; ++i) {
        if (place(i) < r.head_size) squares += v[i].x * v[i].x + v[i].y * v[i].y;
      }
      const float factor = rsqrtf(WarpSum(squares) / r.head_size + r.epsilon);
#pragma unroll
      for (uint32_t i = 0; i < kPairs; ++i) {
        if (place(i) >= r.head_size) continue;
        v[i].x *= factor * weight[i].x;
        v[i].y *= factor * weight[i].y;
      }
    }
    const auto show = [&] {
#pragma unroll
      for (uint32_t i = 0; i < kPairs; ++i) {
        if (place(i) < stride) *reinterpret_cast<float2*>(of_head + place(i)) = v[i];
      }
      __syncwarp();
    };
    if (!is_value) {
      show();
      const auto rotated = [&](uint32_t at, float own) {
        if (at < r.pairs) return own * cosines[at] - of_head[at + r.pairs] * sines[at];
        const uint32_t angle = at - r.pairs;
        if (angle < r.pairs) return own * cosines[angle] + of_head[angle] * sines[angle];
        return own;
      };
#pragma unroll
      for (uint32_t i = 0; i < kPairs; ++i) {
        if (place(i) >= stride) continue;
        v[i] = make_float2(rotated(place(i), v[i].x), rotated(place(i) + 1, v[i].y));
      }
      __syncwarp();
    }
    char* const line = is_query ? shared + room.queries + head * room.key_bytes
                                : shared + room.fresh + (is_value ? room.fresh_bytes : 0);
    auto* const words = reinterpret_cast<uint32_t*>(line);
    const uint32_t line_bytes = kv.line_bytes();
    if (!is_query && kFp8) {
      show();
      const uint32_t scale = WriteFp8Line(kv, of_head, words, lane);
      if (lane == 0) words[line_bytes / 4] = scale;
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kPairs; ++i) {
        if (place(i) < stride) words[place(i) / 2] = PackBf16(v[i].x, v[i].y);
      }
    }
    __syncwarp();
    if (is_query || piece != 0) return;
    char* const layer = LayerIn(phase, row.now_page);
    const uint64_t in_layer = LineOf(row.now_slot, is_value ? 1 : 0);
    auto* const cached = reinterpret_cast<uint32_t*>(layer + in_layer * line_bytes);
#pragma unroll 1
    for (uint32_t i = lane; i < line_bytes / 4; i += 32) cached[i] = words[i];
    if (kFp8 && lane == 0) {
      reinterpret_cast<uint8_t*>(layer + kv.scales_at())[in_layer] =
          static_cast<uint8_t>(words[line_bytes / 4]);
    }
  }

  // Waits for a block's keys or values, and puts this step's line among those of this warp. Values
  // after the last are zero, because zero times what is not a number would not be zero.
  __device__ const char* TakeLines(RingPlace& place, uint32_t first, uint32_t value) const {
    auto* const full = reinterpret_cast<uint64_t*>(shared + room.barriers);
    char* const stage = shared + room.ring + place.stage * kStageBytes;
    AwaitPhase(&full[place.stage], place.parity);
    const uint32_t own = first + warp * kKeysOfWarp;
    const uint32_t chunks = kv.line_bytes() / 16;
    auto* const lines = reinterpret_cast<uint4*>(stage) + warp * kKeysOfWarp * chunks;
    if (own >= to) return stage;
    if (row.new_key - own < kKeysOfWarp && row.new_key < to) {
      const auto* const line =
          reinterpret_cast<const uint4*>(shared + room.fresh + value * room.fresh_bytes);
      for (uint32_t i = lane; i < chunks; i += 32)
        lines[(row.new_key - own) * chunks + i] = line[i];
    }
    if (value == 1 && to - own < kKeysOfWarp) {
      for (uint32_t i = (to - own) * chunks + lane; i < kKeysOfWarp * chunks; i += 32) {
        lines[i] = make_uint4(0, 0, 0, 0);
      }
    }
    __syncwarp();
    return stage + warp * kKeysOfWarp * kv.line_bytes();
  }
  __device__ void Free(RingPlace& place) const {
    auto* const full = reinterpret_cast<uint64_t*>(shared + room.barriers);
    ShowToCopies();  // lines that were put there
    __syncwarp();
    if (lane == 0) Arrive(full + kMostStages + place.stage);
    place.Next(room.stages);
  }

  __device__ void Attend(const ResidentPhase& phase, RingPlace& place, uint32_t phase_number) {
    float most = -INFINITY;  // of head lane / 4
    float sum = 0;           // this lane's part
    Out out = {};
    for (uint32_t first = from; first < to; first += room.block_keys) {
      if (kFp8 && first != from) LoadScales(phase, first);
      const bool works = first + warp * kKeysOfWarp < to && warp * kKeysOfWarp < room.block_keys;
      uint32_t weights[2] = {};
      const char* lines = TakeLines(place, first, 0);
      if (works) {
        float scores[4];
        Score(lines, scores);
        Weigh(first, scores, weights, most, sum, out);
      }
      Free(place);
      lines = TakeLines(place, first, 1);
      if (works) AddValues(lines, weights, out);
      Free(place);
    }
    Add(phase, most, sum, out, phase_number);
  }

  // Scores of 16 keys with the query of head lane / 4.
  __device__ void Score(const char* keys, float (&scores)[4]) const {
    float acc[2][2][4] = {};  // [key / 8], products that do not wait for one another
    const char* const query = shared + room.queries + lane / 4 * room.key_bytes;
    const uint32_t line_bytes = kv.line_bytes();
#pragma unroll 2
    for (uint32_t first = 0; first < kv.head_stride; first += 32) {
      const uint32_t at = first + lane % 4 * 8;
      const bool real = at < kv.head_stride;
      uint4 q = make_uint4(0, 0, 0, 0);
      if (real) q = *reinterpret_cast<const uint4*>(query + at * 2);
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        const char* const key = keys + (i * 8 + lane / 4) * line_bytes;
        uint4 k = make_uint4(0, 0, 0, 0);
        if (real && kFp8) {
          const uint2 packed = *reinterpret_cast<const uint2*>(key + at);
          const uint2 a = PairsOfE4m3(packed.x, kTwoTo120);
          const uint2 b = PairsOfE4m3(packed.y, kTwoTo120);
          k = make_uint4(a.x, a.y, b.x, b.y);
        } else if (real) {
          k = *reinterpret_cast<const uint4*>(key + at * 2);
        }
        Mma(acc[i][0], q.x, 0, q.y, 0, k.x, k.y);
        Mma(acc[i][1], q.z, 0, q.w, 0, k.z, k.w);
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) scores[i] = acc[i / 2][0][i % 2] + acc[i / 2][1][i % 2];
  }

  // A line's scale, whose powers PairsOfE4m3 has with kTwoTo120.
  __device__ float ScaleOf(uint32_t key, uint32_t scale, uint32_t value) const {
    if (key == row.new_key && key < to) {  // and this block has rotated it
      scale = *reinterpret_cast<const uint32_t*>(shared + room.fresh + value * room.fresh_bytes +
                                                 kv.line_bytes());
    }
    return __uint_as_float((max(scale, 121U) - 120U) << 23);
  }

  // The running softmax of each head, by four lanes. Makes weights in bfloat16 of scores.
  __device__ void Weigh(uint32_t first, float (&scores)[4], uint32_t (&weights)[2], float& most,
                        float& sum, Out& out) const {
    float best = most;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t key = first + KeyOf(i);
      if (kFp8) scores[i] *= ScaleOf(key, key_scales[i], 0);
      scores[i] *= r.scale;
      scores[i] = key < to && row.Allows(key) ? scores[i] * kLog2E : -INFINITY;
      best = fmaxf(best, scores[i]);
    }
    best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFU, best, 1));
    best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFU, best, 2));
    const float base = best == -INFINITY ? 0.0F : best;
    const float shrink = Exp2(most - base);
    most = best;
    sum *= shrink;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      scores[i] = Exp2(scores[i] - base);
      sum += scores[i];
      if (kFp8) scores[i] *= ScaleOf(first + KeyOf(i), value_scales[i], 1);
    }
    weights[0] = PackBf16(scores[0], scores[1]);
    weights[1] = PackBf16(scores[2], scores[3]);
    if (first == from) return;
    const float shrinks[2] = {__shfl_sync(0xFFFFFFFFU, shrink, lane % 4 * 8),
                              __shfl_sync(0xFFFFFFFFU, shrink, lane % 4 * 8 + 4)};
#pragma unroll
    for (uint32_t c = 0; c < kChunks; ++c) {
      if (c * 64 >= kv.head_stride) break;
#pragma unroll
      for (uint32_t i = 0; i < 16; ++i) out[c][i / 4][i % 4] *= shrinks[i % 2];
    }
  }

  // Adds 16 values by their weights. A lane has eight dimensions of four values, which are four
  // tiles of two rows for each lane / 4.
  __device__ void AddValues(const char* values, const uint32_t (&weights)[2], Out& out) const {
    constexpr uint32_t kLow = 0x5410;
    constexpr uint32_t kHigh = 0x7632;
    const uint32_t line_bytes = kv.line_bytes();
    const char* const own = values + lane % 4 * 2 * line_bytes;
#pragma unroll
    for (uint32_t c = 0; c < kChunks; ++c) {
      if (c * 64 >= kv.head_stride) break;
      const uint32_t at = c * 64 + lane / 4 * 8;
      const bool real = at < kv.head_stride;
      if constexpr (kFp8) {
        uint2 v[4] = {};
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t key = i / 2 * 8 + i % 2;
          if (real) v[i] = *reinterpret_cast<const uint2*>(own + key * line_bytes + at);
        }
#pragma unroll
        for (uint32_t word = 0; word < 2; ++word) {
          const auto of = [&](uint32_t i) { return word == 0 ? v[i].x : v[i].y; };
          const auto pair = [&](uint32_t i, uint32_t which) {
            return PairsOfE4m3(__byte_perm(of(i), of(i + 1), which), kTwoTo120);
          };
          // A line has the number 2 before the number 1 of each four (WriteFp8Line).
          const uint2 a = pair(0, kLow);
          const uint2 b = pair(0, kHigh);
          const uint2 d = pair(2, kLow);
          const uint2 e = pair(2, kHigh);
          Mma(out[c][2 * word], a.x, b.x, d.x, e.x, weights[0], weights[1]);
          Mma(out[c][2 * word + 1], a.y, b.y, d.y, e.y, weights[0], weights[1]);
        }
      } else {
        uint4 v[4] = {};
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t key = i / 2 * 8 + i % 2;
          if (real) v[i] = *reinterpret_cast<const uint4*>(own + key * line_bytes + at * 2);
        }
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
          const auto of = [&](uint32_t i) {
            return j == 0 ? v[i].x : j == 1 ? v[i].y : j == 2 ? v[i].z : v[i].w;
          };
          Mma(out[c][j], __byte_perm(of(0), of(1), kLow), __byte_perm(of(0), of(1), kHigh),
              __byte_perm(of(2), of(3), kLow), __byte_perm(of(2), of(3), kHigh), weights[0],
              weights[1]);
        }
      }
    }
  }

  // Adds the results of this block's warps, and sends them.
  __device__ void Add(const ResidentPhase& phase, float most, float sum, const Out& out,
                      uint32_t phase_number) const {
    auto* const parts = reinterpret_cast<float*>(shared + room.parts);
    auto* const scales = reinterpret_cast<float2*>(shared + room.part_scales);
    const uint32_t keys = min(to - from, room.block_keys);  // of the first block
    const uint32_t warps = (keys + kKeysOfWarp - 1) / kKeysOfWarp;
    if (warp < warps) {
      sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
      sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
      if (lane % 4 == 0) scales[warp * 8 + lane / 4] = make_float2(most, sum);
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t head = lane % 4 * 2 + i;
        if (head >= group) break;
        float* const own = parts + (warp * group + head) * room.part_stride;
#pragma unroll
        for (uint32_t c = 0; c < kChunks; ++c) {
          const uint32_t at = c * 64 + lane / 4 * 8;
          if (at >= kv.head_stride) break;
          const auto& of = out[c];
          *reinterpret_cast<float4*>(own + at) =
              make_float4(of[0][i], of[0][i + 2], of[1][i], of[1][i + 2]);
          *reinterpret_cast<float4*>(own + at + 4) =
              make_float4(of[2][i], of[2][i + 2], of[3][i], of[3][i + 2]);
        }
      }
    }
    MeetConsumers();
    const uint32_t pairs = group * pairs_of_head;
#pragma unroll 1
    for (uint32_t pair = threadIdx.x; pair < pairs; pair += kConsumers) {
      const uint32_t head = pair < kConsumers ? head_of_thread : pair / pairs_of_head;
      const uint32_t in_head = pair - head * pairs_of_head;
      float2 scale[kWarps];
      float2 part[kWarps];
      float best = -INFINITY;
#pragma unroll
      for (uint32_t w = 0; w < kWarps; ++w) {
        scale[w] = make_float2(-INFINITY, 0);
        part[w] = make_float2(0, 0);
        if (w >= warps) continue;
        scale[w] = scales[w * 8 + head];
        part[w] = *reinterpret_cast<const float2*>(parts + (w * group + head) * room.part_stride +
                                                   2 * in_head);
        best = fmaxf(best, scale[w].x);
      }
      const float base = best == -INFINITY ? 0.0F : best;
      float total = 0;
      float2 numbers = make_float2(0, 0);
#pragma unroll
      for (uint32_t w = 0; w < kWarps; ++w) {
        const float weight = Exp2(scale[w].x - base);
        total += weight * scale[w].y;
        numbers.x += weight * part[w].x;
        numbers.y += weight * part[w].y;
      }
      const uint32_t in_step = piece * r.heads + kv_head * group;
      if (in_head == 0) {
        SendPair(phase.part_scales + (in_step + head) * 2, __float_as_uint(best),
                 __float_as_uint(total), phase_number);
      }
      SendPair(phase.parts + static_cast<size_t>(in_step) * kv.head_stride + 2 * pair,
               __float_as_uint(numbers.x), __float_as_uint(numbers.y), phase_number);
    }
  }

  const ResidentStep& r;
  const RowOfStep& row;
  const ResidentLayout& room;
  char* const shared;
  const KvShape& kv;
  const uint32_t group;
  const uint32_t kv_head;
  const uint32_t piece;
  const uint32_t lane;
  const uint32_t warp;
  const uint32_t pairs_of_head;
  const uint32_t merged;          // pairs that each block of a key head merges
  const uint32_t head_of_thread;  // of this thread's first pair
  uint32_t window = 0;
  uint32_t from = 0;
  uint32_t to = 0;
  // fp8: of the keys whose scores this lane has
  uint32_t key_scales[4];
  uint32_t value_scales[4];
};

}  // namespace pie::cuda
