#include "model/config.h"

#include <cmath>
#include <utility>

#include "model/config_family.h"
#include "model/limits.h"

namespace pie {
namespace {

bool IsGemma(Architecture architecture) {
  return architecture == Architecture::kGemma2 || architecture == Architecture::kGemma3;
}

Status CheckRange(std::string_view name, uint32_t value, uint32_t most) {
  if (value >= 1 && value <= most) return {};
  return Fail(Code::kInvalid, "{} is {}; it must be between 1 and {}", name, value, most);
}

Status CheckNumbers(const ModelConfig& config) {
  if (!(config.norm_eps > 0 && config.norm_eps < 1)) {
    return Fail(Code::kInvalid, "the epsilon of the norms is {}; it must be between 0 and 1",
                config.norm_eps);
  }
  if (!std::isfinite(config.attention_scale) || config.attention_scale <= 0) {
    return Fail(Code::kInvalid, "the attention scale is {}; it must be above 0",
                config.attention_scale);
  }
  for (const float cap : {config.attention_softcap, config.final_softcap}) {
    if (!std::isfinite(cap) || cap < 0)
      return Fail(Code::kInvalid, "a soft cap is {}; it must not be negative", cap);
  }
  return ValidateRope(config.rope);
}

}  // namespace

std::string_view NameOf(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      return "llama";
    case Architecture::kMixtral:
      return "mixtral";
    case Architecture::kQwen2:
      return "qwen2";
    case Architecture::kQwen3:
      return "qwen3";
    case Architecture::kQwen3Moe:
      return "qwen3moe";
    case Architecture::kGemma2:
      return "gemma2";
    case Architecture::kGemma3:
      return "gemma3";
    case Architecture::kPhi3:
      return "phi3";
    case Architecture::kOlmo2:
      return "olmo2";
    case Architecture::kGptOss:
      return "gpt-oss";
  }
  std::unreachable();
}

ModelConfig FamilyConfig(Architecture architecture) {
  ModelConfig config;
  config.architecture = architecture;
  switch (architecture) {
    case Architecture::kLlama:
    case Architecture::kMixtral:
      break;
    case Architecture::kQwen2:
      config.qkv_bias = true;
      break;
    case Architecture::kGemma3:
      config.rope.theta = 1'000'000;
      config.rope.sliding_theta = 10'000;
      [[fallthrough]];
    case Architecture::kGemma2:
      config.activation = Activation::kGeluTanh;
      config.norms = NormPlacement::kAround;
      config.tied_embeddings = true;
      if (architecture == Architecture::kGemma3) config.qk_norm = QkNorm::kHead;
      break;
    case Architecture::kQwen3:
    case Architecture::kQwen3Moe:
      config.qk_norm = QkNorm::kHead;
      break;
    case Architecture::kPhi3:
      config.fused_qkv = true;
      break;
    case Architecture::kOlmo2:
      config.norms = NormPlacement::kAfter;
      config.qk_norm = QkNorm::kWhole;
      break;
    case Architecture::kGptOss:
      config.activation = Activation::kClampedSwiglu;
      config.qkv_bias = config.attention_output_bias = config.ffn_bias = true;
      config.moe.router_bias = true;
      config.attention_sinks = true;
      config.rope.theta = 150'000;
      break;
  }
  return config;
}

void SetSlidingPattern(ModelConfig& config, uint32_t period) {
  config.sliding_layers.resize(config.layers);
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    config.sliding_layers[layer] = period == 0 || layer % period < period - 1;
  }
}

uint32_t FamilySlidingPeriod(Architecture architecture) {
  switch (architecture) {
    case Architecture::kGemma2:
    case Architecture::kGptOss:
      return 2;
    case Architecture::kGemma3:
      return 6;
    default:
      return 0;
  }
}

Status CheckSizes(const ModelConfig& config) {
  PIE_RETURN_IF_ERROR(CheckRange("the number of layers", config.layers, limits::kLayers));
  PIE_RETURN_IF_ERROR(CheckRange("the hidden size", config.hidden_size, limits::kHiddenSize));
  PIE_RETURN_IF_ERROR(CheckRange("the number of heads", config.heads, limits::kHeads));
  PIE_RETURN_IF_ERROR(CheckRange("the number of KV heads", config.kv_heads, limits::kHeads));
  PIE_RETURN_IF_ERROR(CheckRange("the head dimension", config.head_dim, limits::kHeadDim));
  PIE_RETURN_IF_ERROR(CheckRange("the vocabulary's size", config.vocab_size, limits::kVocabSize));
  PIE_RETURN_IF_ERROR(
      CheckRange("the context length", config.context_length, limits::kContextLength));
  if (config.heads % config.kv_heads != 0) {
    return Fail(Code::kInvalid, "{} heads cannot share {} KV heads evenly", config.heads,
                config.kv_heads);
  }
  const uint32_t dims = config.rope.dims;
  if (dims == 0 || dims % 2 != 0 || dims > config.head_dim) {
    return Fail(
        Code::kInvalid,
        "the rotary dimensions are {}; they must be even and at most the head dimension, {}", dims,
        config.head_dim);
  }
  if (config.moe.experts == 0) {
    return CheckRange("the feed-forward size", config.ffn_size, limits::kFfnSize);
  }
  PIE_RETURN_IF_ERROR(CheckRange("the number of experts", config.moe.experts, limits::kExperts));
  PIE_RETURN_IF_ERROR(
      CheckRange("the number of experts used", config.moe.experts_used, config.moe.experts));
  return CheckRange("the experts' feed-forward size", config.moe.ffn_size, limits::kFfnSize);
}

Status FinishConfig(ModelConfig& config) {
  if (config.attention_scale == 0) {
    config.attention_scale = 1 / std::sqrt(static_cast<float>(config.head_dim));
  }
  if (IsGemma(config.architecture)) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  }
  // A window as wide as the context means nothing, except where sliding layers have their own
  // theta.
  if (config.sliding_window >= config.context_length && config.rope.sliding_theta == 0) {
    config.sliding_window = 0;
  }
  if (config.sliding_window == 0) config.sliding_layers.clear();
  if (config.sliding_window != 0 && config.sliding_layers.size() != config.layers) {
    return Fail(Code::kInvalid, "the file gives the kinds of {} layers, but the model has {}",
                config.sliding_layers.size(), config.layers);
  }
  return CheckNumbers(config);
}

}  // namespace pie
