#include "backend/cuda/kernels/sampling.h"

#include "backend/cuda/kernels/launch.cuh"
#include "base/random.h"

namespace pie::cuda {
namespace {

constexpr uint32_t kThreads = 1024;
constexpr uint32_t kWarps = kThreads / 32;
constexpr uint32_t kCandidates = 4096;
constexpr float kOne = 1099511627776.0F;  // 2^40, the weight of the best

// Larger for larger numbers. Both zeros are equal.
__device__ uint32_t KeyOf(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0F);
  return bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFU : 0x80000000U);
}

__device__ float FloatOf(uint32_t key) {
  return __uint_as_float(key ^ ((key >> 31) != 0 ? 0x80000000U : 0xFFFFFFFFU));
}

struct Shared {
  uint64_t histogram[256];
  uint64_t warp_sums[kWarps];
  uint64_t scan[kWarps];
  uint32_t keys[kWarps];
  uint32_t ids[kWarps];
  uint64_t before;
  uint32_t prefix;
  uint32_t count;
  float candidate[kCandidates];
  uint32_t candidate_id[kCandidates];
};

// A row of logits under a mask.
struct Row {
  const float* logits;
  const uint32_t* mask;
  uint32_t vocab;
  float best;
  float inverse;
  bool aligned;  // to 16 bytes

  __device__ bool Allows(uint32_t id) const {
    return mask == nullptr || (mask[id / 32] >> (id % 32) & 1U) != 0;
  }
  // The logit of a token that may be chosen: not masked, not NaN, not -inf.
  __device__ bool Get(uint32_t id, float& logit) const {
    if (!Allows(id)) return false;
    logit = logits[id];
    return logit > -INFINITY;
  }
  __device__ float Weight(float logit) const {
    return logit == best ? 1.0F : expf((logit - best) * inverse);
  }
  __device__ uint64_t Units(float logit) const {
    return static_cast<uint64_t>(__float2ull_rn(Weight(logit) * kOne));
  }
};

__device__ uint64_t BlockTotal(uint64_t value, Shared& s) {
  for (int offset = 16; offset > 0; offset >>= 1) {
    value += __shfl_xor_sync(0xFFFFFFFFU, value, offset);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) s.warp_sums[threadIdx.x / 32] = value;
  __syncthreads();
  uint64_t total = 0;
  for (uint32_t i = 0; i < kWarps; ++i) total += s.warp_sums[i];
  return total;
}

struct Selected {
  uint32_t key;
  uint64_t before;  // the weight of all larger keys
};

// Walks the elements by descending key and returns the key at which the running sum of weights
// exceeds `target`. get(i, key, weight) returns false for an element that does not count. The sum
// of all weights must exceed `target`.
template <class Get>
__device__ Selected Select(uint32_t count, uint64_t target, Shared& s, Get&& get) {
  __syncthreads();
  if (threadIdx.x == 0) {
    s.before = 0;
    s.prefix = 0;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (uint32_t i = threadIdx.x; i < 256; i += kThreads) s.histogram[i] = 0;
    __syncthreads();
    const uint32_t prefix = s.prefix;
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
      uint32_t key = 0;
      uint64_t weight = 0;
      if (!get(i, key, weight) || weight == 0) continue;
      if (shift < 24 && key >> (shift + 8) != prefix) continue;
      atomicAdd(reinterpret_cast<unsigned long long*>(&s.histogram[key >> shift & 0xFFU]),
                static_cast<unsigned long long>(weight));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      uint64_t before = s.before;
      int bin = 255;
      int last = -1;  // the last bin that has any weight, should the target be too large
      uint64_t before_last = before;
      for (; bin >= 0; --bin) {
        if (s.histogram[bin] == 0) continue;
        last = bin;
        before_last = before;
        if (before + s.histogram[bin] > target) break;
        before += s.histogram[bin];
      }
      s.before = before_last;
      s.prefix = prefix << 8 | static_cast<uint32_t>(last < 0 ? 0 : last);
    }
    __syncthreads();
  }
  const Selected selected{s.prefix, s.before};
  __syncthreads();
  return selected;
}

// The token at which the running sum, in the order of ids, exceeds `target`. `warp_sums` has the
// sums of the ranges that the warps own.
template <class Units>
__device__ uint32_t WalkById(const Row& row, uint64_t target, const uint64_t* range_sums,
                             Units&& units) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t range = (row.vocab + kWarps - 1) / kWarps;
  uint32_t of = 0;
  uint32_t last = 0;
  for (uint32_t i = 0; i < kWarps; ++i) {
    if (range_sums[i] == 0) continue;
    last = of = i;
    if (target < range_sums[i]) break;
    target -= range_sums[i];
  }
  of = last;
  uint32_t token = 0;
  const uint32_t end = min((of + 1) * range, row.vocab);
  for (uint32_t begin = of * range; begin < end; begin += 32) {
    const uint32_t id = begin + lane;
    const uint64_t own = id < end ? units(id) : 0;
    uint64_t sum = own;
    for (int offset = 1; offset < 32; offset <<= 1) {
      const uint64_t other = __shfl_up_sync(0xFFFFFFFFU, sum, offset);
      if (lane >= offset) sum += other;
    }
    const uint32_t some = __ballot_sync(0xFFFFFFFFU, own != 0);
    if (some != 0) token = begin + 31 - __clz(some);
    const uint32_t over = __ballot_sync(0xFFFFFFFFU, sum > target);
    if (over != 0) return begin + __ffs(over) - 1;
    target -= __shfl_sync(0xFFFFFFFFU, sum, 31);
  }
  return token;
}

// The best token, the lowest id among equals: packed as key and inverted id.
__device__ bool Best(const Row& row, Shared& s, float& best, uint32_t& token) {
  uint32_t key = 0;
  uint32_t id = kNone;
  const auto consider = [&](uint32_t i, float logit) {
    if (!row.Allows(i) || !(logit > -INFINITY)) return;
    const uint32_t own = KeyOf(logit);
    if (own > key) {  // ids ascend, so the first of equals stays
      key = own;
      id = i;
    }
  };
  const uint32_t fours = row.aligned ? row.vocab / 4 : 0;
  constexpr uint32_t kAtOnce = 8;  // loads under way
  for (uint32_t first = threadIdx.x; first < fours; first += kAtOnce * kThreads) {
    float4 loaded[kAtOnce];
#pragma unroll
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      const uint32_t i = min(first + j * kThreads, fours - 1);
      loaded[j] = reinterpret_cast<const float4*>(row.logits)[i];
    }
#pragma unroll
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      const uint32_t i = first + j * kThreads;
      if (i >= fours) break;
      consider(4 * i, loaded[j].x);
      consider(4 * i + 1, loaded[j].y);
      consider(4 * i + 2, loaded[j].z);
      consider(4 * i + 3, loaded[j].w);
    }
  }
  for (uint32_t i = 4 * fours + threadIdx.x; i < row.vocab; i += kThreads) {
    consider(i, row.logits[i]);
  }
  const auto take = [&](uint32_t other, uint32_t other_id) {
    if (other > key || (other == key && other_id < id)) {
      key = other;
      id = other_id;
    }
  };
  for (int offset = 16; offset > 0; offset >>= 1) {
    take(__shfl_xor_sync(0xFFFFFFFFU, key, offset), __shfl_xor_sync(0xFFFFFFFFU, id, offset));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    s.keys[threadIdx.x / 32] = key;
    s.ids[threadIdx.x / 32] = id;
  }
  __syncthreads();
  for (uint32_t i = 0; i < kWarps; ++i) take(s.keys[i], s.ids[i]);
  token = id;
  if (id == kNone) return false;
  best = FloatOf(key);
  return true;
}

// Collects the logits that are at least `least`. False if they are too many.
__device__ bool Collect(const Row& row, float least, Shared& s) {
  __syncthreads();
  if (threadIdx.x == 0) s.count = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < row.vocab; i += kThreads) {
    float logit = 0;
    if (!row.Get(i, logit) || logit < least) continue;
    const uint32_t at = atomicAdd(&s.count, 1U);
    if (at < kCandidates) {
      s.candidate[at] = logit;
      s.candidate_id[at] = i;
    }
  }
  __syncthreads();
  return s.count <= kCandidates;
}

// Draws by rank: among the k likeliest tokens, and of these the fewest that together have the
// probability p.
__device__ void DrawByRank(const SampleItem& item, const Row& row, Shared& s, uint32_t* tokens,
                           uint32_t* chosen) {
  const float p = fminf(fmaxf(item.p, 0.0F), 1.0F);
  bool collected = false;
  uint64_t total = 0;
  if (item.k > 0 && item.k <= kThreads && item.k < row.vocab) {
    // At least k logits reach the k-th largest of the threads' maxima.
    float own = -INFINITY;
    for (uint32_t i = threadIdx.x; i < row.vocab; i += kThreads) {
      float logit = 0;
      if (row.Get(i, logit)) own = fmaxf(own, logit);
    }
    s.candidate[threadIdx.x] = own;
    __syncthreads();
    const bool enough = BlockTotal(own > -INFINITY ? 1 : 0, s) >= item.k;
    float least = -INFINITY;
    if (enough) {
      const Selected kth =
          Select(kThreads, item.k - 1, s, [&](uint32_t i, uint32_t& key, uint64_t& weight) {
            key = KeyOf(s.candidate[i]);
            weight = 1;
            return s.candidate[i] > -INFINITY;
          });
      least = FloatOf(kth.key);
    }
    collected = Collect(row, least, s);
  } else if (item.k == 0) {
    uint64_t sum = 0;
    for (uint32_t i = threadIdx.x; i < row.vocab; i += kThreads) {
      float logit = 0;
      if (row.Get(i, logit)) sum += row.Units(logit);
    }
    total = BlockTotal(sum, s);
    // Usually few tokens have the share p: the search starts near the best and widens once.
    for (const float depth : {5.0F, 10.0F}) {
      if (!Collect(row, row.best - depth / row.inverse, s)) break;
      uint64_t held = 0;
      for (uint32_t i = threadIdx.x; i < s.count; i += kThreads) held += row.Units(s.candidate[i]);
      held = BlockTotal(held, s);
      if (static_cast<double>(held) > static_cast<double>(p) * static_cast<double>(total)) {
        collected = true;
        break;
      }
    }
  }
  const uint32_t count = collected ? s.count : row.vocab;
  const auto get = [&](uint32_t i, float& logit, uint32_t& id) {
    if (collected) {
      logit = s.candidate[i];
      id = s.candidate_id[i];
      return true;
    }
    id = i;
    return row.Get(i, logit);
  };
  const auto by_weight = [&](uint32_t i, uint32_t& key, uint64_t& weight) {
    float logit = 0;
    uint32_t id = 0;
    if (!get(i, logit, id)) return false;
    key = KeyOf(logit);
    weight = row.Units(logit);
    return true;
  };

  if (item.k > 0) {
    uint64_t present = 0;
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
      float logit = 0;
      uint32_t id = 0;
      present += get(i, logit, id) ? 1 : 0;
    }
    present = BlockTotal(present, s);
    const uint64_t kept = min(static_cast<uint64_t>(item.k), present);
    const Selected kth =
        Select(count, kept - 1, s, [&](uint32_t i, uint32_t& key, uint64_t& weight) {
          float logit = 0;
          uint32_t id = 0;
          if (!get(i, logit, id)) return false;
          key = KeyOf(logit);
          weight = 1;
          return true;
        });
    uint64_t above = 0;
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
      uint32_t key = 0;
      uint64_t weight = 0;
      if (by_weight(i, key, weight) && key > kth.key) above += weight;
    }
    total = BlockTotal(above, s) + (kept - kth.before) * row.Units(FloatOf(kth.key));
  }
  if (p < 1) {  // cut where the running sum reaches p of the total
    uint64_t enough = static_cast<uint64_t>(ceil(static_cast<double>(p) * total));
    enough = min(max(enough, uint64_t{1}), max(total, uint64_t{1}));
    const Selected cut = Select(count, enough - 1, s, by_weight);
    const uint64_t each = max(row.Units(FloatOf(cut.key)), uint64_t{1});
    total = cut.before + ((enough - 1 - cut.before) / each + 1) * each;
  }

  const CounterRng random{item.random};
  for (uint32_t draw = 0; draw < item.draws; ++draw) {
    const uint64_t target =
        min(static_cast<uint64_t>(random.Double(draw) * static_cast<double>(total)), total - 1);
    const Selected drawn = Select(count, target, s, by_weight);
    // Equal logits follow one another by id.
    const uint64_t each = max(row.Units(FloatOf(drawn.key)), uint64_t{1});
    const uint64_t nth = (target - drawn.before) / each;
    const Selected id = Select(count, nth, s, [&](uint32_t i, uint32_t& key, uint64_t& weight) {
      float logit = 0;
      uint32_t own = 0;
      if (!get(i, logit, own) || KeyOf(logit) != drawn.key) return false;
      key = ~own;
      weight = 1;
      return true;
    });
    if (threadIdx.x == 0) {
      tokens[draw] = ~id.key;
      if (draw == 0 && chosen != nullptr) *chosen = ~id.key;
    }
  }
}

__device__ void DrawById(const SampleItem& item, const Row& row, Shared& s, uint32_t* tokens,
                         uint32_t* chosen) {
  const float least =
      item.kind == SampleItem::Kind::kMinP ? fmaxf(fminf(item.p, 1.0F), 1.17549435e-38F) : 0.0F;
  const auto units = [&](uint32_t id) -> uint64_t {
    float logit = 0;
    if (!row.Get(id, logit)) return 0;
    return row.Weight(logit) < least ? 0 : row.Units(logit);
  };
  const uint32_t warp = threadIdx.x / 32;
  const uint32_t range = (row.vocab + kWarps - 1) / kWarps;
  uint64_t sum = 0;
  for (uint32_t id = warp * range + threadIdx.x % 32; id < min((warp + 1) * range, row.vocab);
       id += 32) {
    sum += units(id);
  }
  const uint64_t total = BlockTotal(sum, s);
  const CounterRng random{item.random};
  for (uint32_t draw = warp; draw < item.draws; draw += kWarps) {
    const uint64_t target =
        min(static_cast<uint64_t>(random.Double(draw) * static_cast<double>(total)), total - 1);
    const uint32_t token = WalkById(row, target, s.warp_sums, units);
    if (threadIdx.x % 32 == 0) {
      tokens[draw] = token;
      if (draw == 0 && chosen != nullptr) *chosen = token;
    }
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    SampleKernel(const SamplingInputs sampling, uint32_t first, uint32_t count) {
  PIE_DYNAMIC_SHARED(char, memory);
  Shared& s = *reinterpret_cast<Shared*>(memory);
  LetNextStart();
  const StepHeader* const step = sampling.step;
  if (count == kNone) count = step->items;
  WaitForInputs();
  for (uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    const SampleItem item = ArrayOf<SampleItem>(step, step->sample_items)[first + i];
    const uint32_t* const words = ArrayOf<uint32_t>(step, step->mask_words);
    Row row{.logits = sampling.logits + (item.read - sampling.first_read) * sampling.stride,
            .mask = item.mask == kNone ? nullptr : words + item.mask,
            .vocab = sampling.vocab,
            .best = 0,
            .inverse = item.inverse,
            .aligned = sampling.stride % 4 == 0};
    uint32_t* const tokens = sampling.outputs[step->output].tokens + item.slot;
    uint32_t* const chosen = item.chosen == kNone ? nullptr : sampling.chosen + item.chosen;
    uint32_t best = kNone;
    const bool any = Best(row, s, row.best, best);
    if (!any || item.kind == SampleItem::Kind::kGreedy) {
      for (uint32_t draw = threadIdx.x; draw < item.draws; draw += kThreads) tokens[draw] = best;
      if (threadIdx.x == 0 && chosen != nullptr) *chosen = best;
    } else if (item.kind == SampleItem::Kind::kByRank) {
      DrawByRank(item, row, s, tokens, chosen);
    } else {
      DrawById(item, row, s, tokens, chosen);
    }
    __syncthreads();
  }
}

__device__ double BlockSumDouble(double value, double* scratch) {
  for (int offset = 16; offset > 0; offset >>= 1) {
    value += __shfl_xor_sync(0xFFFFFFFFU, value, offset);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  double total = 0;
  for (uint32_t i = 0; i < kWarps; ++i) total += scratch[i];
  return total;
}

__global__ void __launch_bounds__(kThreads, 1)
    ProbeKernel(const SamplingInputs sampling, uint32_t first) {
  __shared__ double scratch[kWarps];
  __shared__ float maxima[kWarps];
  LetNextStart();
  WaitForInputs();
  const StepHeader* const step = sampling.step;
  const ProbeItem item = ArrayOf<ProbeItem>(step, step->probe_items)[first + blockIdx.x];
  const float* const logits = sampling.logits + (item.read - sampling.first_read) * sampling.stride;
  float most = -INFINITY;
  for (uint32_t i = threadIdx.x; i < sampling.vocab; i += kThreads) most = fmaxf(most, logits[i]);
  for (int offset = 16; offset > 0; offset >>= 1) {
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, offset));
  }
  if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = most;
  __syncthreads();
  for (uint32_t i = 0; i < kWarps; ++i) most = fmaxf(most, maxima[i]);
  double sum = 0;
  double weighted = 0;
  for (uint32_t i = threadIdx.x; i < sampling.vocab; i += kThreads) {
    const double below = static_cast<double>(logits[i]) - most;
    if (!(below > -745)) continue;
    const double e = exp(below);
    sum += e;
    weighted += e * below;
  }
  sum = BlockSumDouble(sum, scratch);
  weighted = BlockSumDouble(weighted, scratch);
  float* const out = sampling.outputs[step->output].values + item.slot;
  if (item.ids == 0) {
    if (threadIdx.x == 0) out[0] = static_cast<float>(fmax(log(sum) - weighted / sum, 0.0));
    return;
  }
  const double log_total = most + log(sum);
  const uint32_t* const ids = ArrayOf<uint32_t>(step, step->ids) + item.first_id;
  for (uint32_t i = threadIdx.x; i < item.ids; i += kThreads) {
    out[i] = static_cast<float>(logits[ids[i]] - log_total);
  }
}

}  // namespace

void RunSamples(const SamplingInputs& sampling, uint32_t first, uint32_t count, uint32_t blocks,
                Stream stream) {
  AllowShared(SampleKernel, 48 * 1024 + 1);
  Launch(SampleKernel, dim3(blocks), dim3(kThreads), sizeof(Shared), stream, sampling, first,
         count);
}

void RunProbes(const SamplingInputs& sampling, uint32_t first, uint32_t count, Stream stream) {
  if (count == 0) return;
  Launch(ProbeKernel, dim3(count), dim3(kThreads), 0, stream, sampling, first);
}

}  // namespace pie::cuda
