#include "backend/cuda/kernels/layer.h"

#include <algorithm>

#include "backend/cuda/kernels/gate.cuh"
#include "backend/cuda/kernels/kv_line.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/packed.cuh"

namespace pie::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kMostResidualThreads = 512;
constexpr int kEach = 4;  // groups of four numbers that a thread of ResidualKernel keeps

__global__ void __launch_bounds__(kThreads) EmbeddingKernel(const Embedding e) {
  LetNextStart();
  WaitForInputs();  // an earlier batch chooses tokens
  const uint32_t row = blockIdx.x;
  const bool real = row < e.step->rows;
  uint32_t token = 0;
  uint32_t position = 0;
  if (real) {
    const uint32_t source = ArrayOf<uint32_t>(e.step, e.step->sources)[row];
    token = source == kNone ? ArrayOf<uint32_t>(e.step, e.step->tokens)[row] : e.chosen[source];
    position = ArrayOf<uint32_t>(e.step, e.step->positions)[row];
  }
  if (token >= e.vocab)
    token = 0;  // a carried token that was never chosen; the host fails the member
  // By the last threads, whose part of the copy is the smallest.
  for (uint32_t i = kThreads - 1 - threadIdx.x; i < e.tables * e.pairs; i += kThreads) {
    const uint32_t table = i / e.pairs;
    const float factor = table == 0 ? e.attention_factor : 1.0F;
    double sine = 0;
    double cosine = 0;
    sincos(position * e.frequencies[i], &sine, &cosine);
    const size_t at = (static_cast<size_t>(table) * e.rows + row) * e.pairs + i % e.pairs;
    e.cosines[at] = static_cast<float>(cosine) * factor;
    e.sines[at] = static_cast<float>(sine) * factor;
  }
  float* const to = e.x + static_cast<size_t>(row) * e.hidden;
  if (e.kind != WeightKind::kBf16) {
    for (uint32_t i = threadIdx.x; i < e.hidden; i += kThreads) {
      to[i] = PackedNumber(e.kind, e.table, e.scales, token, i, e.hidden) * e.scale;
    }
    return;
  }
  // Eight numbers at a time: the hidden size is a multiple of 8.
  const auto* const from = reinterpret_cast<const uint4*>(static_cast<const bf16*>(e.table) +
                                                          static_cast<size_t>(token) * e.hidden);
  for (uint32_t i = threadIdx.x; i < e.hidden / 8; i += kThreads) {
    const uint4 eight = from[i];
    const auto two = [&](uint32_t pair) {
      const float2 number = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
      return make_float2(number.x * e.scale, number.y * e.scale);
    };
    const float2 a = two(eight.x);
    const float2 b = two(eight.y);
    const float2 c = two(eight.z);
    const float2 d = two(eight.w);
    reinterpret_cast<float4*>(to)[2 * i] = make_float4(a.x, a.y, b.x, b.y);
    reinterpret_cast<float4*>(to)[2 * i + 1] = make_float4(c.x, c.y, d.x, d.y);
  }
}

__device__ float4 Sum(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ float4 Scaled(float4 a, float4 b, float c) {
  return make_float4(a.x * c * b.x, a.y * c * b.y, a.z * c * b.z, a.w * c * b.w);
}
__device__ float Squares(float4 a) {
  return a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w;
}

// One block per row. A thread keeps kEach groups of four numbers in registers between the passes,
// and reads those of longer rows again. The order of the sums depends on the row's length alone.
__global__ void __launch_bounds__(kMostResidualThreads) ResidualKernel(const Residual r) {
  __shared__ float scratch[33];
  LetNextStart();
  // Four numbers at a time: the hidden size is a multiple of 8.
  const uint32_t count = r.hidden / 4;
  const uint32_t rest = threadIdx.x + kEach * blockDim.x;  // where the others begin
  const auto* const norm4 = reinterpret_cast<const float4*>(r.norm);
  const auto* const post_norm4 = reinterpret_cast<const float4*>(r.post_norm);
  const auto* const bias4 = reinterpret_cast<const float4*>(r.bias);
  const auto each = [&](auto&& visit) {  // visit(which, place)
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const uint32_t i = threadIdx.x + e * blockDim.x;
      if (i < count) visit(e, i);
    }
  };
  float4 norms[kEach] = {};  // weights, so they are read before the wait
  if (r.norm != nullptr) each([&](int e, uint32_t i) { norms[e] = norm4[i]; });
  WaitForInputs();
  uint32_t row = blockIdx.x;
  if (r.gather != nullptr) {
    const uint32_t read = r.first_read + blockIdx.x;
    row = read < r.gather->reads ? ArrayOf<uint32_t>(r.gather, r.gather->read_rows)[read] : 0;
  }
  auto* const x4 = reinterpret_cast<float4*>(r.x + static_cast<size_t>(row) * r.hidden);
  float4 values[kEach] = {};
  each([&](int e, uint32_t i) { values[e] = x4[i]; });
  float squares = 0;
  if (r.delta != nullptr) {
    const auto* const delta4 =
        reinterpret_cast<const float4*>(r.delta + static_cast<size_t>(row) * r.hidden);
    const auto added = [&](uint32_t i) {
      float4 value = delta4[i];
      if (bias4 != nullptr) value = Sum(value, bias4[i]);
      return value;
    };
    float post = 1;
    if (post_norm4 != nullptr) {
      for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) squares += Squares(added(i));
      post = rsqrtf(BlockSum(squares, scratch) / r.hidden + r.epsilon);
      squares = 0;
    }
    const auto add = [&](float4 value, uint32_t i) {
      float4 more = added(i);
      if (post_norm4 != nullptr) more = Scaled(more, post_norm4[i], post);
      return x4[i] = Sum(value, more);
    };
    each([&](int e, uint32_t i) { values[e] = add(values[e], i); });
    for (uint32_t i = rest; i < count; i += blockDim.x) add(x4[i], i);
  }
  if (r.h == nullptr) return;
  float factor = 1;
  if (r.norm != nullptr) {
    each([&](int e, uint32_t) { squares += Squares(values[e]); });
    for (uint32_t i = rest; i < count; i += blockDim.x) squares += Squares(x4[i]);
    factor = rsqrtf(BlockSum(squares, scratch) / r.hidden + r.epsilon);
  }
  auto* const h4 = reinterpret_cast<uint2*>(static_cast<bf16*>(r.h) +
                                            static_cast<size_t>(blockIdx.x) * r.hidden);
  const auto write = [&](uint32_t i, float4 value, float4 norm) {
    if (r.norm != nullptr) value = Scaled(value, norm, factor);
    h4[i] = make_uint2(PackBf16(value.x, value.y), PackBf16(value.z, value.w));
  };
  each([&](int e, uint32_t i) { write(i, values[e], norms[e]); });
  for (uint32_t i = rest; i < count; i += blockDim.x) {
    write(i, x4[i], r.norm != nullptr ? norm4[i] : float4{});
  }
}

// Where the numbers of a row's head go: to the queries, or to the line of its key or value.
struct HeadPlace {
  bool is_query;
  bool is_value;
  uint32_t kv_head;

  __device__ HeadPlace(const RotateWrite& r, uint32_t head)
      : is_query(head < r.heads),
        is_value(head >= r.heads + r.kv.kv_heads),
        kv_head(is_value ? head - r.heads - r.kv.kv_heads : head - r.heads) {}
  // Of all lines of a page's keys and values.
  __device__ uint64_t HeadOf(const RotateWrite& r) const {
    return (is_value ? r.kv.kv_heads : 0) + kv_head;
  }
  __device__ uint64_t LineOf(const RotateWrite& r, uint64_t place) const {
    return HeadOf(r) * r.kv.page_tokens + place % r.kv.page_tokens;
  }
  __device__ static char* LayerOf(const KvShape& kv, uint64_t place) {
    return static_cast<char*>(kv.data) + place / kv.page_tokens * kv.page_bytes + kv.layer_offset;
  }
  // In bfloat16.
  __device__ bf16* To(const RotateWrite& r, uint32_t row, uint32_t head, uint64_t place) const {
    if (is_query) {
      return static_cast<bf16*>(r.q) +
             (static_cast<size_t>(row) * r.heads + head) * r.kv.head_stride;
    }
    return reinterpret_cast<bf16*>(LayerOf(r.kv, place) + LineOf(r, place) * r.kv.line_bytes());
  }
};

// The usual case of RotateWriteKernel: heads of 128 in bfloat16, whose halves are rotated, and
// norms by head. A lane has four neighbouring numbers.
__global__ void __launch_bounds__(kThreads) RotateWriteHalvesKernel(const RotateWrite r) {
  LetNextStart();
  const uint32_t row = blockIdx.x;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t all_heads = r.heads + 2 * r.kv.kv_heads;
  const uint32_t head = blockIdx.y * (kThreads / 32) + threadIdx.x / 32;
  const bool real = row < r.step->rows && head < all_heads;
  const HeadPlace place_of(r, head);
  bf16* const to =
      real ? place_of.To(r, row, head, ArrayOf<uint64_t>(r.step, r.step->places)[row]) : nullptr;
  const auto four_of = [](const float* from, size_t i) {
    return reinterpret_cast<const float4*>(from)[i];
  };
  const float* const norm = place_of.is_value ? nullptr : place_of.is_query ? r.q_norm : r.k_norm;
  float4 weights = make_float4(1, 1, 1, 1);
  if (norm != nullptr) weights = four_of(norm, lane);
  WaitForInputs();
  if (!real) return;
  float4 x = four_of(r.qkv, (static_cast<size_t>(row) * all_heads + head) * 32 + lane);
  float4 cosine = make_float4(1, 1, 1, 1);
  float4 sine = make_float4(0, 0, 0, 0);
  if (!place_of.is_value) {
    cosine = four_of(r.cosines, static_cast<size_t>(row) * 16 + lane % 16);
    sine = four_of(r.sines, static_cast<size_t>(row) * 16 + lane % 16);
  }
  if (r.bias != nullptr) x = Sum(x, four_of(r.bias, head * 32 + lane));
  if (norm != nullptr) {
    const float factor = rsqrtf(WarpSum(Squares(x)) / r.head_size + r.epsilon);
    x = Scaled(x, weights, factor);
  }
  if (!place_of.is_value) {
    const bool second = lane >= 16;
    const auto rotated = [&](float own, float cosine_of, float sine_of) {
      const float other = __shfl_xor_sync(0xFFFFFFFFU, own, 16);
      return second ? own * cosine_of + other * sine_of : own * cosine_of - other * sine_of;
    };
    x = make_float4(rotated(x.x, cosine.x, sine.x), rotated(x.y, cosine.y, sine.y),
                    rotated(x.z, cosine.z, sine.z), rotated(x.w, cosine.w, sine.w));
  }
  reinterpret_cast<uint2*>(to)[lane] = make_uint2(PackBf16(x.x, x.y), PackBf16(x.z, x.w));
}

// One warp per head, eight heads per block.
__global__ void __launch_bounds__(kThreads) RotateWriteKernel(const RotateWrite r) {
  PIE_DYNAMIC_SHARED(float, numbers);
  __shared__ float scratch[33];
  LetNextStart();
  const uint32_t row = blockIdx.x;
  const bool real = row < r.step->rows;
  const uint64_t place = real ? ArrayOf<uint64_t>(r.step, r.step->places)[row] : 0;
  WaitForInputs();
  if (!real) return;
  const KvShape& kv = r.kv;
  const uint32_t all_heads = r.heads + 2 * kv.kv_heads;
  const float* const qkv = r.qkv + static_cast<size_t>(row) * all_heads * kv.head_stride;
  const auto number = [&](uint32_t i) { return qkv[i] + (r.bias == nullptr ? 0.0F : r.bias[i]); };
  float whole[2] = {1, 1};  // factors of all queries, and of all keys
  if (r.norm_whole) {
    float q = 0;
    float k = 0;
    const uint32_t q_end = r.heads * kv.head_stride;
    const uint32_t k_end = q_end + kv.kv_heads * kv.head_stride;
    for (uint32_t i = threadIdx.x; i < k_end; i += kThreads) {
      (i < q_end ? q : k) += number(i) * number(i);  // the padding is zero
    }
    whole[0] = rsqrtf(BlockSum(q, scratch) / (r.heads * r.head_size) + r.epsilon);
    whole[1] = rsqrtf(BlockSum(k, scratch) / (kv.kv_heads * r.head_size) + r.epsilon);
  }
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t head = blockIdx.y * (kThreads / 32) + threadIdx.x / 32;
  if (head >= all_heads) return;
  float* const of_head = numbers + threadIdx.x / 32 * kv.head_stride;
  for (uint32_t i = lane; i < kv.head_stride; i += 32)
    of_head[i] = number(head * kv.head_stride + i);
  __syncwarp();
  const HeadPlace place_of(r, head);
  const bool is_query = place_of.is_query;
  const bool is_value = place_of.is_value;
  const uint32_t kv_head = place_of.kv_head;
  const float* const norm = is_query ? r.q_norm : r.k_norm;
  if (norm != nullptr && !is_value) {
    float factor = 0;
    const float* weights = norm;
    if (r.norm_whole) {
      factor = whole[is_query ? 0 : 1];
      weights += (is_query ? head : kv_head) * r.head_size;
    } else {
      float squares = 0;
      for (uint32_t i = lane; i < r.head_size; i += 32) squares += of_head[i] * of_head[i];
      factor = rsqrtf(WarpSum(squares) / r.head_size + r.epsilon);
    }
    for (uint32_t i = lane; i < r.head_size; i += 32) of_head[i] *= factor * weights[i];
    __syncwarp();
  }
  if (!is_value) {
    for (uint32_t i = lane; i < r.pairs; i += 32) {
      const uint32_t first = r.neighbours ? 2 * i : i;
      const uint32_t second = r.neighbours ? 2 * i + 1 : i + r.pairs;
      const float cosine = r.cosines[static_cast<size_t>(row) * r.pairs + i];
      const float sine = r.sines[static_cast<size_t>(row) * r.pairs + i];
      const float a = of_head[first];
      const float b = of_head[second];
      of_head[first] = a * cosine - b * sine;
      of_head[second] = b * cosine + a * sine;
    }
    __syncwarp();
  }
  if (kv.fp8 && !is_query) {
    char* const layer = HeadPlace::LayerOf(kv, place);
    const uint64_t line = place_of.LineOf(r, place);
    auto* const words = reinterpret_cast<uint32_t*>(layer + line * kv.line_bytes());
    const uint32_t scale = WriteFp8Line(kv, of_head, words, lane);
    auto* const scales = reinterpret_cast<uint8_t*>(layer + kv.scales_at());
    if (lane == 0) scales[line] = static_cast<uint8_t>(scale);
    return;
  }
  bf16* const to = place_of.To(r, row, head, place);
  for (uint32_t i = lane; i < kv.head_stride / 2; i += 32) {
    reinterpret_cast<uint32_t*>(to)[i] = PackBf16(of_head[2 * i], of_head[2 * i + 1]);
  }
}

// Every thread makes 8 neighbouring numbers from a group of 16.
__global__ void __launch_bounds__(kThreads)
    GateKernel(GateKind kind, const uint4* gate_up, uint4* out, uint64_t groups) {
  LetNextStart();
  WaitForInputs();
  const uint64_t i = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= groups) return;
  const uint4 gates = gate_up[2 * i];
  const uint4 ups = gate_up[2 * i + 1];
  const auto pair = [&](uint32_t gate, uint32_t up) {
    const float2 g = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&gate));
    const float2 u = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&up));
    return PackBf16(GateOf(kind, g.x, u.x), GateOf(kind, g.y, u.y));
  };
  out[i] = make_uint4(pair(gates.x, ups.x), pair(gates.y, ups.y), pair(gates.z, ups.z),
                      pair(gates.w, ups.w));
}

__global__ void __launch_bounds__(kThreads) SoftCapKernel(float* x, uint64_t count, float cap) {
  LetNextStart();
  WaitForInputs();
  const uint64_t i = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) x[i] = cap * tanhf(x[i] / cap);
}

// All blocks copy a part of each page, copy after copy: a page may be copied from and to.
__global__ void __launch_bounds__(kThreads)
    PageCopyKernel(uint4* pages, uint64_t page_vectors, const uint32_t* from_to, uint32_t copies) {
  LetNextStart();
  WaitForInputs();
  const uint64_t i = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= page_vectors) return;
  for (uint32_t copy = 0; copy < copies; ++copy) {
    pages[from_to[2 * copy + 1] * page_vectors + i] = pages[from_to[2 * copy] * page_vectors + i];
  }
}

__global__ void PublishKernel(const StepHeader* step, uint64_t* done) {
  LetNextStart();
  WaitForInputs();
  __threadfence_system();
  *static_cast<volatile uint64_t*>(done) = step->ticket;
}

}  // namespace

void RunEmbedding(const Embedding& e, Stream stream) {
  Launch(EmbeddingKernel, dim3(e.rows), dim3(kThreads), 0, stream, e);
}

void RunResidual(const Residual& r, Stream stream) {
  if (r.rows == 0) return;
  const uint32_t threads = (r.hidden / 4 + kEach - 1) / kEach;
  const dim3 block(std::clamp((threads + 31) / 32 * 32, 128U, kMostResidualThreads));
  Launch(ResidualKernel, dim3(r.rows), block, 0, stream, r);
}

void RunRotateWrite(const RotateWrite& r, Stream stream) {
  constexpr uint32_t kHeads = kThreads / 32;
  const uint32_t all_heads = r.heads + 2 * r.kv.kv_heads;
  const dim3 grid(r.rows, (all_heads + kHeads - 1) / kHeads);
  const bool halves = r.kv.head_stride == 128 && r.head_size == 128 && r.pairs == 64 &&
                      !r.neighbours && !r.norm_whole && !r.kv.fp8;
  if (halves) return Launch(RotateWriteHalvesKernel, grid, dim3(kThreads), 0, stream, r);
  Launch(RotateWriteKernel, grid, dim3(kThreads), kHeads * r.kv.head_stride * sizeof(float), stream,
         r);
}

void RunGate(GateKind kind, const void* gate_up, void* out, uint32_t rows, uint32_t ffn,
             Stream stream) {
  const uint64_t groups = static_cast<uint64_t>(rows) * ffn / 8;
  Launch(GateKernel, dim3(static_cast<uint32_t>((groups + kThreads - 1) / kThreads)),
         dim3(kThreads), 0, stream, kind, static_cast<const uint4*>(gate_up),
         static_cast<uint4*>(out), groups);
}

void RunSoftCap(float* x, uint64_t count, float cap, Stream stream) {
  Launch(SoftCapKernel, dim3(static_cast<uint32_t>((count + kThreads - 1) / kThreads)),
         dim3(kThreads), 0, stream, x, count, cap);
}

void RunPageCopies(void* pages, uint64_t page_bytes, const uint32_t* from_to, uint32_t copies,
                   Stream stream) {
  const uint64_t vectors = page_bytes / sizeof(uint4);
  Launch(PageCopyKernel, dim3(static_cast<uint32_t>((vectors + kThreads - 1) / kThreads)),
         dim3(kThreads), 0, stream, static_cast<uint4*>(pages), vectors, from_to, copies);
}

void RunPublish(const StepHeader* step, uint64_t* done, Stream stream) {
  Launch(PublishKernel, dim3(1), dim3(1), 0, stream, step, done);
}

}  // namespace pie::cuda
