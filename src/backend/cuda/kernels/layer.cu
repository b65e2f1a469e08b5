#include "backend/cuda/kernels/layer.h"

#include "backend/cuda/kernels/gate.cuh"
#include "backend/cuda/kernels/kv_line.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/packed.cuh"

namespace pie::cuda {
namespace {

constexpr uint32_t kThreads = 256;

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
  const bf16* const from =
      static_cast<const bf16*>(e.table) + static_cast<size_t>(token) * e.hidden;
  float* const to = e.x + static_cast<size_t>(row) * e.hidden;
  for (uint32_t i = threadIdx.x; i < e.hidden; i += kThreads) {
    const float number = e.kind == WeightKind::kBf16
                             ? __bfloat162float(from[i])
                             : PackedNumber(e.kind, e.table, e.scales, token, i, e.hidden);
    to[i] = number * e.scale;
  }
  for (uint32_t i = threadIdx.x; i < e.tables * e.pairs; i += kThreads) {
    const uint32_t table = i / e.pairs;
    const float factor = table == 0 ? e.attention_factor : 1.0F;
    double sine = 0;
    double cosine = 0;
    sincos(position * e.frequencies[i], &sine, &cosine);
    const size_t at = (static_cast<size_t>(table) * e.rows + row) * e.pairs + i % e.pairs;
    e.cosines[at] = static_cast<float>(cosine) * factor;
    e.sines[at] = static_cast<float>(sine) * factor;
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

// One block per row. The row stays in shared memory between the passes.
__global__ void ResidualKernel(const Residual r) {
  PIE_DYNAMIC_SHARED(float, row_of);
  __shared__ float scratch[33];
  LetNextStart();
  WaitForInputs();
  uint32_t row = blockIdx.x;
  if (r.gather != nullptr) {
    const uint32_t read = r.first_read + blockIdx.x;
    row = read < r.gather->reads ? ArrayOf<uint32_t>(r.gather, r.gather->read_rows)[read] : 0;
  }
  float* const x = r.x + static_cast<size_t>(row) * r.hidden;
  const float* const delta =
      r.delta == nullptr ? nullptr : r.delta + static_cast<size_t>(row) * r.hidden;
  // Four numbers at a time: the hidden size is a multiple of 8.
  const auto* const x4 = reinterpret_cast<const float4*>(x);
  const auto* const delta4 = reinterpret_cast<const float4*>(delta);
  const auto* const bias4 = reinterpret_cast<const float4*>(r.bias);
  auto* const row4 = reinterpret_cast<float4*>(row_of);
  const uint32_t count = r.hidden / 4;
  const auto added = [&](uint32_t i) {
    float4 value = delta4[i];
    if (bias4 != nullptr) value = Sum(value, bias4[i]);
    return value;
  };
  float post = 1;
  if (r.post_norm != nullptr) {
    float squares = 0;
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) squares += Squares(added(i));
    post = rsqrtf(BlockSum(squares, scratch) / r.hidden + r.epsilon);
  }
  float squares = 0;
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
    float4 value = x4[i];
    if (delta != nullptr) {
      float4 add = added(i);
      if (r.post_norm != nullptr) {
        add = Scaled(add, reinterpret_cast<const float4*>(r.post_norm)[i], post);
      }
      value = Sum(value, add);
      reinterpret_cast<float4*>(x)[i] = value;
    }
    row4[i] = value;
    squares += Squares(value);
  }
  if (r.h == nullptr) return;
  bf16* const h = static_cast<bf16*>(r.h) + static_cast<size_t>(blockIdx.x) * r.hidden;
  float factor = 1;
  if (r.norm != nullptr) factor = rsqrtf(BlockSum(squares, scratch) / r.hidden + r.epsilon);
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
    float4 value = row4[i];  // written by this thread
    if (r.norm != nullptr)
      value = Scaled(value, reinterpret_cast<const float4*>(r.norm)[i], factor);
    reinterpret_cast<uint2*>(h)[i] =
        make_uint2(PackBf16(value.x, value.y), PackBf16(value.z, value.w));
  }
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
  const bool is_query = head < r.heads;
  const bool is_value = head >= r.heads + kv.kv_heads;
  const uint32_t kv_head = is_value ? head - r.heads - kv.kv_heads : head - r.heads;
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
  bf16* to = nullptr;
  if (is_query) {
    to = static_cast<bf16*>(r.q) + (static_cast<size_t>(row) * r.heads + head) * kv.head_stride;
  } else {
    const uint64_t head_of = (is_value ? kv.kv_heads : 0) + kv_head;
    const uint64_t line = head_of * kv.page_tokens + place % kv.page_tokens;
    char* const layer =
        static_cast<char*>(kv.data) + place / kv.page_tokens * kv.page_bytes + kv.layer_offset;
    if (kv.fp8) {
      auto* const words = reinterpret_cast<uint32_t*>(layer + line * kv.line_bytes());
      const uint32_t scale = WriteFp8Line(kv, of_head, words, lane);
      auto* const scales = reinterpret_cast<uint8_t*>(layer + kv.scales_at());
      if (lane == 0) scales[line] = static_cast<uint8_t>(scale);
      return;
    }
    to = reinterpret_cast<bf16*>(layer + line * kv.line_bytes());
  }
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
  const size_t shared = r.hidden * sizeof(float);
  AllowShared(ResidualKernel, shared);
  const uint32_t threads = r.hidden >= 2048 ? 1024 : 256;
  Launch(ResidualKernel, dim3(r.rows), dim3(threads), shared, stream, r);
}

void RunRotateWrite(const RotateWrite& r, Stream stream) {
  constexpr uint32_t kHeads = kThreads / 32;
  const uint32_t all_heads = r.heads + 2 * r.kv.kv_heads;
  Launch(RotateWriteKernel, dim3(r.rows, (all_heads + kHeads - 1) / kHeads), dim3(kThreads),
         kHeads * r.kv.head_stride * sizeof(float), stream, r);
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
