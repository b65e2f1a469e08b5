#include "backend/cpu/layers/layer_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace pie::cpu {
namespace {

using Kind = Operation::Kind;

const float* OrNull(const std::vector<float>& weights) {
  return weights.empty() ? nullptr : weights.data();
}

bool TakesBytes(const FeedForwardWeights& ffn) {
  return ffn.gate.w.quantized() || ffn.up.w.quantized();
}

}  // namespace

std::vector<Operation> MakePlan(const ModelConfig& config, const Weights& weights) {
  std::vector<Operation> plan;
  Operation residual{.has_delta = false};
  for (uint32_t i = 0; i < config.layers; ++i) {
    const LayerWeights& layer = weights.layers[i];
    const bool sliding = config.IsSliding(i);
    const bool turns_apart = sliding && config.rope.sliding_theta != 0;
    residual.layer = i;
    residual.norm = OrNull(layer.attention_norm);
    residual.quantized = layer.q.w.quantized() || layer.k.w.quantized() || layer.v.w.quantized();
    plan.push_back(residual);
    plan.push_back({.kind = Kind::kProject,
                    .layer = i,
                    .rope = turns_apart ? RopeTableId::kSliding : RopeTableId::kMain});
    plan.push_back(
        {.kind = Kind::kAttend, .layer = i, .window = sliding ? config.sliding_window : 0});

    const bool dense = layer.experts.empty();
    plan.push_back({.layer = i,
                    .bias = OrNull(layer.o.bias),
                    .post_norm = OrNull(layer.attention_post_norm),
                    .norm = OrNull(layer.ffn_norm),
                    .quantized = dense ? TakesBytes(layer.ffn)
                                       : layer.router.w.quantized() ||
                                             std::ranges::any_of(layer.experts, TakesBytes)});
    plan.push_back({.kind = dense ? Kind::kFeedForward : Kind::kExperts, .layer = i});
    // The biases of experts are added by Experts itself.
    residual = {.bias = dense ? OrNull(layer.ffn.down.bias) : nullptr,
                .post_norm = OrNull(layer.ffn_post_norm)};
  }
  residual.layer = config.layers;
  residual.has_hidden = false;
  plan.push_back(residual);
  return plan;
}

std::string Describe(const std::vector<Operation>& plan) {
  std::string text;
  for (const Operation& operation : plan) {
    if (!text.empty()) text += ' ';
    switch (operation.kind) {
      case Kind::kResidual: {
        std::string parts;
        const auto add = [&](bool has, const char* name) {
          if (has) parts += fmt::format("{}{}", parts.empty() ? "" : ", ", name);
        };
        add(operation.bias != nullptr, "bias");
        add(operation.post_norm != nullptr, "post-norm");
        add(operation.has_delta, "add");
        add(operation.norm != nullptr, "norm");
        text += fmt::format("residual({})", parts);
        break;
      }
      case Kind::kProject:
        text += operation.rope == RopeTableId::kSliding ? "project(sliding)" : "project";
        break;
      case Kind::kAttend:
        text += operation.window == 0 ? "attend" : fmt::format("attend({})", operation.window);
        break;
      case Kind::kFeedForward:
        text += "feed-forward";
        break;
      case Kind::kExperts:
        text += "experts";
        break;
    }
  }
  return text;
}

}  // namespace pie::cpu
