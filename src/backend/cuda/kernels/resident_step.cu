#include "backend/cuda/kernels/resident_step.h"

#include "backend/cuda/kernels/resident_attention.cuh"
#include "backend/cuda/kernels/resident_attention_any.cuh"
#include "backend/cuda/kernels/resident_products.cuh"

namespace pie::cuda {
namespace {

// The threads meet once more before the same `scratch` is used again.
__device__ float SumOfConsumers(float value, float* scratch) {
  value = WarpSum(value);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  MeetConsumers();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) sum += scratch[i];
  return sum;
}

// x += post_norm(delta + bias), and the input of the products becomes norm(x). Every block has x.
template <class Model>
__device__ void NormInput(const ResidentStep& r, const ResidentPhase& phase,
                          const ResidentLayout& room, char* shared, RingPlace& place,
                          uint32_t phase_number) {
  auto* const x = reinterpret_cast<float2*>(shared + room.x);
  auto* const input = reinterpret_cast<uint32_t*>(shared + room.input);
  auto* const scratch = reinterpret_cast<float*>(shared + room.scratch);
  const auto* const bias = reinterpret_cast<const float2*>(Model::kPlain ? nullptr : phase.bias);
  const auto* const post_norm =
      reinterpret_cast<const float2*>(Model::kPlain ? nullptr : phase.post_norm);
  const bool has_norm = phase.norm != nullptr;
  auto* const added = reinterpret_cast<float2*>(shared + room.merge);
  const uint32_t count = r.hidden / 2;
  float squares = 0;
  if (phase.read != nullptr && post_norm != nullptr) {
    ReadMail<Model::kMailAtOnce>(phase.read, count, phase_number - phase.from,
                                 [&](uint32_t i, uint32_t a, uint32_t b) {
                                   float2 add = make_float2(__uint_as_float(a), __uint_as_float(b));
                                   if (bias != nullptr)
                                     add = make_float2(add.x + bias[i].x, add.y + bias[i].y);
                                   added[i] = add;
                                   squares += add.x * add.x + add.y * add.y;
                                 });
    const float post = rsqrtf(SumOfConsumers(squares, scratch + kWarps) / r.hidden + r.epsilon);
    squares = 0;
    for (uint32_t i = threadIdx.x; i < count; i += kConsumers) {
      const float2 add = added[i];  // written by this thread
      x[i].x += add.x * post * post_norm[i].x;
      x[i].y += add.y * post * post_norm[i].y;
      squares += x[i].x * x[i].x + x[i].y * x[i].y;
    }
  } else if (phase.read != nullptr) {
    ReadMail<Model::kMailAtOnce>(
        phase.read, count, phase_number - phase.from, [&](uint32_t i, uint32_t a, uint32_t b) {
          float2 value = x[i];
          value.x += __uint_as_float(a) + (bias == nullptr ? 0.0F : bias[i].x);
          value.y += __uint_as_float(b) + (bias == nullptr ? 0.0F : bias[i].y);
          x[i] = value;
          squares += value.x * value.x + value.y * value.y;
        });
  } else {
    for (uint32_t i = threadIdx.x; i < count; i += kConsumers) {
      squares += x[i].x * x[i].x + x[i].y * x[i].y;
    }
  }
  if (!has_norm) {
    MeetConsumers();  // `added` and `input` share memory
    for (uint32_t i = threadIdx.x; i < count; i += kConsumers) input[i] = PackBf16(x[i].x, x[i].y);
    return;
  }
  const float factor = rsqrtf(SumOfConsumers(squares, scratch) / r.hidden + r.epsilon);
  auto* const full = reinterpret_cast<uint64_t*>(shared + room.barriers) + place.stage;
  const auto* const norm =
      reinterpret_cast<const float2*>(shared + room.ring + place.stage * kStageBytes);
  AwaitPhase(full, place.parity);
  place.Next(room.stages);
#pragma unroll 2
  for (uint32_t i = threadIdx.x; i < count; i += kConsumers) {
    const float2 value = x[i];  // written by this thread
    if (phase.x_out != nullptr && blockIdx.x == 0)
      reinterpret_cast<float2*>(phase.x_out)[i] = value;
    input[i] = PackBf16(value.x * factor * norm[i].x, value.y * factor * norm[i].y);
  }
  __syncwarp();
  if (threadIdx.x % 32 == 0) Arrive(full + kMostStages);
}

template <class Model>
__device__ void CopyInput(const ResidentPhase& phase, const ResidentLayout& room, char* shared,
                          uint32_t phase_number) {
  auto* const input = reinterpret_cast<uint2*>(shared + room.input);
  ReadMail<Model::kMailAtOnce>(
      phase.read, phase.k / 4, phase_number - phase.from,
      [&](uint32_t i, uint32_t a, uint32_t b) { input[i] = make_uint2(a, b); });
}

// The input is zero from column k up to the next span. Packed weights are zero there, but zero
// times NaN would not be zero.
__device__ void PadInput(uint32_t k, const ResidentLayout& room, char* shared) {
  auto* const input = reinterpret_cast<uint32_t*>(shared + room.input);
  const uint32_t end = (k + kSpan - 1) / kSpan * kSpan;
  for (uint32_t i = k / 2 + threadIdx.x; i < end / 2; i += kConsumers) input[i] = 0;
}

// Begins to copy a phase's description to shared memory. AwaitCopies waits for this thread's part.
static_assert(sizeof(ResidentPhase) % 16 == 0 && sizeof(ResidentPhase) / 16 <= kConsumers);
__device__ void BringPhase(const ResidentPhase* from, ResidentPhase* to) {
  if (threadIdx.x < sizeof(ResidentPhase) / 16) {
    CopyAsync(SharedAddress(to) + threadIdx.x * 16,
              reinterpret_cast<const char*>(from) + threadIdx.x * 16, true);
  }
  CommitCopies();
}

// Brings the norms of a phase near, which the memory would be asked for only after the meeting.
__device__ void BringNorms(const ResidentStep& r, const ResidentPhase& phase) {
  if (phase.input != ResidentInput::kNormed) return;
  for (const float* const numbers : {phase.post_norm, phase.bias}) {
    if (numbers == nullptr) continue;
    for (uint32_t i = threadIdx.x * 32; i < r.hidden; i += kConsumers * 32) BringNear(numbers + i);
  }
}

template <class Model>
__device__ void RunPhases(const ResidentStep& r, const ResidentLayout& room, char* shared) {
  auto* const x = reinterpret_cast<float4*>(shared + room.x);
  auto* const angles = reinterpret_cast<float*>(shared + room.angles);
  auto* const entries = reinterpret_cast<ResidentPhase*>(shared + room.phases);
  WaitForInputs();
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < r.hidden / 4; i += kConsumers) {
    x[i] = reinterpret_cast<const float4*>(r.x)[i];
  }
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < r.tables * r.pairs; i += kConsumers) {
    const uint32_t at = i / r.pairs * 2 * r.pairs + i % r.pairs;
    angles[at] = r.cosines[i];
    angles[at + r.pairs] = r.sines[i];
  }
  const RowOfStep row(r);
  const bool attends = blockIdx.x < r.kv.kv_heads * r.splits;
  BringPhase(r.phases, entries);
  AwaitCopies<0>();
  MeetConsumers();
  const uint32_t first_number = CountOf(r.counters + 2) * r.phase_count + 1;
  RingPlace place;
  [[maybe_unused]] PieceOfKeys<Model> piece(r, row, room, shared);  // of plain models
  uint32_t layers = 0;
  for (uint32_t p = 0; p < r.phase_count; ++p) {
    const ResidentPhase& phase = entries[p % 2];
    if (p + 1 < r.phase_count) BringPhase(r.phases + p + 1, entries + (p + 1) % 2);
    const uint32_t number = first_number + p;
    if (!Model::kPlain) BringNorms(r, phase);
    if (phase.input == ResidentInput::kAttention) {
      if (attends) {
        if constexpr (Model::kPlain) {
          piece.Run(phase, place, number);
          piece.Merge(phase, number);
        } else {
          AnyPieceOfKeys any(r, phase, row, room, shared);
          any.Begin();
          any.Run(place, number);
          MergeAnyPieces(r, phase, room, shared, number);
        }
      }
    } else {
      if (phase.begins_layer) ++layers;
      if (phase.input == ResidentInput::kNormed)
        NormInput<Model>(r, phase, room, shared, place, number);
      if (phase.input == ResidentInput::kCopied && blockIdx.x * kTileRows < phase.n) {
        CopyInput<Model>(phase, room, shared, number);
      }
      if (phase.input != ResidentInput::kSame) {
        PadInput(phase.k, room, shared);
        MeetConsumers();
      }
      if (phase.begins_layer && layers > 1 && threadIdx.x == 32) CountLater(r.counters);
      MultiplyTiles<Model>(phase, room, shared, place, number);
    }
    AwaitCopies<0>();
    MeetConsumers();
  }
  if (threadIdx.x == 0 && Count(r.counters + 1) == gridDim.x - 1) {
    r.counters[0] = 0;
    r.counters[1] = 0;
    r.counters[2] += 1;
  }
}

template <class Model>
__global__ void __launch_bounds__(kConsumers + 32, 1)
    ResidentStepKernel(const __grid_constant__ ResidentStep r,
                       const __grid_constant__ ResidentLayout room) {
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
    FetchAll(r, room, shared);
    WaitForInputs();
  } else {
    RunPhases<Model>(r, room, shared);
  }
}

using Kernel = void (*)(ResidentStep, ResidentLayout);

template <bool kFp8>
Kernel KernelOf(ResidentWeights weights) {
  switch (weights) {
    case ResidentWeights::kBf16:
      return ResidentStepKernel<ResidentModel<ResidentWeights::kBf16, kFp8, true>>;
    case ResidentWeights::kFp8:
      return ResidentStepKernel<ResidentModel<ResidentWeights::kFp8, kFp8, true>>;
    case ResidentWeights::kAny:
      break;
  }
  return ResidentStepKernel<ResidentModel<ResidentWeights::kAny, kFp8, false>>;
}
Kernel KernelOf(const ResidentStep& step) {
  const ResidentWeights weights = IsPlain(step) ? step.weights : ResidentWeights::kAny;
  return step.kv.fp8 ? KernelOf<true>(weights) : KernelOf<false>(weights);
}

}  // namespace

uint32_t ResidentSplits(uint32_t kv_heads) {
  return max(1U, ResidentBlocks() / kv_heads);
}

bool CanRunResident(const ResidentStep& step) {
  const ResidentLayout room = LayoutOf(step);
  return room.stages >= kLeastStages && step.kv.kv_heads <= ResidentBlocks() &&
         step.heads / step.kv.kv_heads <= kMostResidentGroup && step.hidden * 4 <= kStageBytes &&
         step.kv.head_stride <= 256 && CanMeet(KernelOf(step), kConsumers + 32, room.bytes);
}

void RunResidentStep(const ResidentStep& step, Stream stream) {
  const ResidentLayout room = LayoutOf(step);
  const Kernel kernel = KernelOf(step);
  AllowShared(kernel, room.bytes);
  LaunchTogether(kernel, dim3(ResidentBlocks()), dim3(kConsumers + 32), room.bytes, stream, step,
                 room);
}

}  // namespace pie::cuda
