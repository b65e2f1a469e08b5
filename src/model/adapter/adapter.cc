#include "model/adapter/adapter.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "model/limits.h"

namespace pie {
namespace {

constexpr uint64_t kSeedOfA = 0x6C6F7261;  // "lora"

// The matrices of a layer that a new adapter changes.
size_t ProjectionsOf(const AdapterShape& shape) {
  return kAdapterTargets - (shape.experts == 0 ? 0 : kExpertTargets);
}

}  // namespace

std::string_view NameOf(AdapterTarget target) {
  constexpr std::array<std::string_view, kAdapterTargets + 2> kNames = {
      "q_proj",  "k_proj",    "v_proj",       "o_proj", "gate_proj",
      "up_proj", "down_proj", "embed_tokens", "lm_head"};
  return kNames[static_cast<size_t>(target)];
}

AdapterShape AdapterShapeOf(const ModelConfig& config) {
  const uint32_t q = config.heads * config.head_dim;
  const uint32_t kv = config.kv_heads * config.head_dim;
  const uint32_t ffn = config.moe.experts == 0 ? config.ffn_size : config.moe.ffn_size;
  const uint32_t hidden = config.hidden_size;
  return {.layers = config.layers,
          .experts = config.moe.experts,
          .targets = {{{hidden, q},
                       {hidden, kv},
                       {hidden, kv},
                       {q, hidden},
                       {hidden, ffn},
                       {hidden, ffn},
                       {ffn, hidden}}},
          .embedding = {config.vocab_size, hidden},
          .head = {hidden, config.vocab_size},
          .fused = config.fused_qkv,
          .interleaved = config.architecture == Architecture::kGptOss};
}

uint32_t AdapterShape::slots(uint32_t layer) const {
  if (layer == layers) return 2;
  return kAdapterTargets + (experts > 1 ? (experts - 1) * kExpertTargets : 0);
}

AdapterTarget AdapterShape::TargetAt(uint32_t layer, uint32_t slot) const {
  if (layer == layers) return slot == 0 ? AdapterTarget::kEmbedding : AdapterTarget::kHead;
  constexpr uint32_t kFirst = AdapterSlot(AdapterTarget::kGate);
  return static_cast<AdapterTarget>(slot < kFirst ? slot
                                                  : kFirst + (slot - kFirst) % kExpertTargets);
}

uint64_t AdapterWeights::parameters() const {
  uint64_t count = 0;
  for (const Layer& layer : layers) {
    for (const LowRank& part : layer) count += part.a.size() + part.b.size();
  }
  return count;
}

uint32_t AdapterWeights::max_rank() const {
  uint32_t most = 0;
  for (const Layer& layer : layers) {
    for (const LowRank& part : layer) most = std::max(most, part.rank);
  }
  return most;
}

float AdapterScale(float alpha, uint32_t rank, bool rslora) {
  const auto r = static_cast<float>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
}

AdapterWeights EmptyAdapter(const AdapterShape& shape) {
  AdapterWeights made;
  made.layers.resize(shape.layers + 1);
  for (uint32_t layer = 0; layer <= shape.layers; ++layer) {
    made.layers[layer].resize(shape.slots(layer));
  }
  return made;
}

Result<uint64_t> ParametersOfNew(const AdapterShape& shape, uint32_t rank) {
  if (rank == 0 || rank > limits::kAdapterRank) {
    return Fail(Code::kInvalid, "rank must be from 1 to {}, not {}", limits::kAdapterRank, rank);
  }
  uint64_t of_layer = 0;
  for (size_t target = 0; target < ProjectionsOf(shape); ++target) {
    const auto [in, out] = shape.targets[target];
    if (out != 0) of_layer += (uint64_t{in} + out) * rank;
  }
  return of_layer * shape.layers;
}

Result<AdapterWeights> MakeAdapter(const AdapterShape& shape, uint32_t rank, float alpha) {
  PIE_RETURN_IF_ERROR(ParametersOfNew(shape, rank));
  if (!std::isfinite(alpha)) {
    return Fail(Code::kInvalid, "alpha must be a finite number, not {}", alpha);
  }
  AdapterWeights made = EmptyAdapter(shape);
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    for (size_t target = 0; target < ProjectionsOf(shape); ++target) {
      const auto [in, out] = shape.targets[target];
      if (out == 0) continue;
      LowRank& part = made.layers[layer][target];
      part = {.rank = rank, .alpha = alpha, .scale = AdapterScale(alpha, rank, false)};
      part.a.resize(size_t{rank} * in);
      part.b.resize(size_t{out} * rank);
      const CounterRng rng{Mix(kSeedOfA, layer, target)};
      const float width = std::sqrt(3.0F / static_cast<float>(in));
      for (size_t i = 0; i < part.a.size(); ++i) part.a[i] = (2 * rng.Float(i) - 1) * width;
    }
  }
  return made;
}

Status CheckFits(const AdapterWeights& weights, const AdapterShape& shape) {
  if (weights.empty()) return {};
  if (weights.layers.size() != size_t{shape.layers} + 1) {
    return Fail(Code::kInvalid, "the adapter is for a model of {} layers; this model has {}",
                weights.layers.size() - 1, shape.layers);
  }
  for (uint32_t layer = 0; layer <= shape.layers; ++layer) {
    if (weights.layers[layer].size() != shape.slots(layer)) {
      return Fail(Code::kInvalid,
                  "the adapter does not fit this model: layer {} has {} matrices here, not {}",
                  layer, shape.slots(layer), weights.layers[layer].size());
    }
    for (uint32_t slot = 0; slot < shape.slots(layer); ++slot) {
      const LowRank& part = weights.layers[layer][slot];
      const AdapterTarget target = shape.TargetAt(layer, slot);
      const auto [in, out] = shape.Of(target);
      if (part.rank == 0) continue;
      if (out != 0 && part.a.size() == size_t{part.rank} * in &&
          part.b.size() == size_t{part.rank} * out) {
        continue;
      }
      return Fail(Code::kInvalid,
                  "the adapter does not fit this model: {} of layer {} is [{}, {}] here",
                  NameOf(target), layer, out, in);
    }
  }
  return {};
}

}  // namespace pie
