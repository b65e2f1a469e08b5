#include "backend/cpu/layers/experts.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/layers/activation.h"

namespace pie::cpu {
namespace {

template <class T>
void Grow(std::vector<T>& buffer, size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

bool TakesBytes(const LayerWeights& layer, Linear FeedForwardWeights::* part) {
  return std::ranges::any_of(layer.experts, [&](const FeedForwardWeights& expert) {
    return (expert.*part).w.quantized();
  });
}

}  // namespace

void Route(std::span<const float> logits, bool renormalize, std::span<uint32_t> chosen,
           std::span<float> shares) {
  // A few passes over few numbers. NaN never counts as the largest: a row of NaNs gets arbitrary
  // experts, and its output is NaN anyway.
  for (size_t n = 0; n < chosen.size(); ++n) {
    uint32_t best = UINT32_MAX;
    for (uint32_t e = 0; e < logits.size(); ++e) {
      const auto before = chosen.first(n);
      if (std::ranges::find(before, e) != before.end()) continue;
      if (best == UINT32_MAX || logits[e] > logits[best]) best = e;
    }
    chosen[n] = best;
  }
  const float most = logits[chosen[0]];
  float sum = 0;
  for (size_t n = 0; n < chosen.size(); ++n) {
    shares[n] = std::exp(logits[chosen[n]] - most);
    sum += shares[n];
  }
  if (!renormalize) {
    sum = 0;
    for (const float logit : logits) sum += std::exp(logit - most);
  }
  for (float& share : shares) share /= sum;
}

void Experts::RouteRows(const LayerWeights& layer, const Activations& x) {
  const uint32_t experts = config_.moe.experts;
  const uint32_t used = config_.moe.experts_used;
  Grow(logits_, size_t{x.rows()} * experts);
  Grow(chosen_, size_t{x.rows()} * used);
  Grow(shares_, size_t{x.rows()} * used);
  MatMulAll(level_, pool_, x, {{layer.router.w, logits_.data(), experts}});
  for (uint32_t row = 0; row < x.rows(); ++row) {
    const std::span logits(&logits_[size_t{row} * experts], experts);
    for (size_t e = 0; e < layer.router.bias.size(); ++e) logits[e] += layer.router.bias[e];
    Route(logits, config_.moe.renormalize, {&chosen_[size_t{row} * used], used},
          {&shares_[size_t{row} * used], used});
  }
}

// Assigns a gathered row to every (row, expert) pair; the rows of one expert are adjacent.
void Experts::Gather(const Activations& x) {
  const size_t pairs = size_t{x.rows()} * config_.moe.experts_used;
  std::vector<uint32_t> next(config_.moe.experts + 1);
  for (size_t i = 0; i < pairs; ++i) ++next[chosen_[i] + 1];
  groups_.clear();
  for (uint32_t e = 0; e < config_.moe.experts; ++e) {
    next[e + 1] += next[e];
    if (next[e + 1] > next[e]) groups_.push_back({e, next[e], next[e + 1]});
  }
  Grow(place_, pairs);
  Grow(from_, pairs);
  for (size_t i = 0; i < pairs; ++i) {
    place_[i] = next[chosen_[i]]++;
    from_[place_[i]] = static_cast<uint32_t>(i / config_.moe.experts_used);
  }
}

void Experts::Multiply(const LayerWeights& layer, Linear FeedForwardWeights::* part,
                       const Activations& x, float* y, size_t y_stride) {
  const uint32_t panels = (layer.experts[0].*part).w.panels();
  // Groups usually have few rows, so a task is a strip of one expert's matrix.
  const uint32_t strips = std::min(panels, pool_.threads() * 2);
  pool_.ParallelFor(static_cast<uint32_t>(groups_.size()) * strips, [&](uint32_t i) {
    const ExpertRows& group = groups_[i / strips];
    const PackedMatrix& w = (layer.experts[group.expert].*part).w;
    const uint32_t strip = i % strips;
    const auto at = [&](uint32_t s) {
      return static_cast<uint32_t>(uint64_t{panels} * s / strips);
    };
    const MatMulRange range{group.begin, group.end, at(strip), at(strip + 1)};
    MatMulPart(level_, w, x, range, PartOutput::In(y, y_stride, range));
  });
}

void Experts::Run(uint32_t index, const LayerWeights& layer, const Activations& x,
                  AdapterRows* adapters, float* out) {
  RouteRows(layer, x);
  Gather(x);
  const uint32_t hidden = config_.hidden_size;
  const uint32_t ffn = config_.moe.ffn_size;
  const uint32_t used = config_.moe.experts_used;
  const uint32_t pairs = x.rows() * used;
  gathered_.Resize(
      level_, pairs, hidden,
      TakesBytes(layer, &FeedForwardWeights::gate) || TakesBytes(layer, &FeedForwardWeights::up));
  pool_.ParallelFor(pairs, [&](uint32_t row) {
    std::copy_n(x.Row(from_[row]), hidden, gathered_.Row(row));
    gathered_.Seal(row);
  });
  if (adapters != nullptr) adapters->Gather({from_.data(), pairs}, groups_);
  const size_t stride = size_t{ffn} * 2;
  Grow(gate_up_, pairs * stride);
  Grow(down_, size_t{pairs} * hidden);
  Multiply(layer, &FeedForwardWeights::gate, gathered_, gate_up_.data(), stride);
  Multiply(layer, &FeedForwardWeights::up, gathered_, gate_up_.data() + ffn, stride);
  if (adapters != nullptr) {
    adapters->AddGathered(index, gathered_,
                          {{AdapterTarget::kGate, gate_up_.data(), stride},
                           {AdapterTarget::kUp, gate_up_.data() + ffn, stride}});
  }
  gated_.Resize(level_, pairs, ffn, TakesBytes(layer, &FeedForwardWeights::down));
  pool_.ParallelFor(static_cast<uint32_t>(groups_.size()), [&](uint32_t g) {
    const FeedForwardWeights& expert = layer.experts[groups_[g].expert];
    for (uint32_t row = groups_[g].begin; row < groups_[g].end; ++row) {
      float* const gate = &gate_up_[row * stride];
      AddBias(expert.gate.bias, gate);
      AddBias(expert.up.bias, gate + ffn);
      Gate(level_, config_.activation, gate, gate + ffn, ffn, gated_.Row(row));
      gated_.Seal(row);
    }
  });
  Multiply(layer, &FeedForwardWeights::down, gated_, down_.data(), hidden);
  if (adapters != nullptr) {
    adapters->AddGathered(index, gated_, {{AdapterTarget::kDown, down_.data(), hidden}});
  }
  pool_.ParallelFor(x.rows(), [&](uint32_t row) {
    float* const to = out + size_t{row} * hidden;
    std::fill_n(to, hidden, 0.0F);
    for (uint32_t n = 0; n < used; ++n) {
      const size_t pair = size_t{row} * used + n;
      float* const from = &down_[size_t{place_[pair]} * hidden];
      AddBias(layer.experts[chosen_[pair]].down.bias, from);
      for (uint32_t i = 0; i < hidden; ++i) to[i] += shares_[pair] * from[i];
    }
  });
}

}  // namespace pie::cpu
