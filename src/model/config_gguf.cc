#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "model/config.h"
#include "model/config_family.h"
#include "model/dequantize.h"
#include "model/shown.h"

namespace pie {
namespace {

using Scaling = RopeConfig::Scaling;

// In GGUF, Mixtral is a llama with experts.
constexpr Architecture kKnown[] = {
    Architecture::kLlama,    Architecture::kQwen2,  Architecture::kQwen3,
    Architecture::kQwen3Moe, Architecture::kGemma2, Architecture::kGemma3,
    Architecture::kPhi3,     Architecture::kOlmo2,  Architecture::kGptOss};

// The metadata of one architecture. Keys are given without its prefix.
class Fields {
 public:
  Fields(const Gguf& gguf, std::string_view architecture)
      : gguf_(gguf), prefix_(std::string(architecture) + ".") {}

  const GgufValue* Find(std::string_view key) const { return gguf_.Find(prefix_ + Text(key)); }

  // Accepts a list with one number per layer if all numbers are equal.
  Result<uint32_t> U32(std::string_view key, std::optional<uint32_t> absent = {}) const {
    const GgufValue* value = Find(key);
    if (value == nullptr) {
      if (absent) return *absent;
      return Fail(Code::kInvalid, "metadata '{}{}' is missing", prefix_, key);
    }
    std::optional<int64_t> number = value->Integer();
    if (const auto list = value->Integers(); list && !list->empty()) {
      if (std::ranges::count(*list, list->front()) != std::ssize(*list)) {
        return Fail(Code::kUnavailable,
                    "metadata '{}{}' differs between layers; this is not supported", prefix_, key);
      }
      number = list->front();
    }
    if (!number || *number < 0 || *number > std::numeric_limits<uint32_t>::max()) {
      return Fail(Code::kInvalid, "metadata '{}{}' must be a whole number from 0 to 2^32 - 1",
                  prefix_, key);
    }
    return static_cast<uint32_t>(*number);
  }

  Result<double> Number(std::string_view key, std::optional<double> absent = {}) const {
    const GgufValue* value = Find(key);
    if (value == nullptr && absent) return *absent;
    if (value == nullptr) {
      return Fail(Code::kInvalid, "metadata '{}{}' is missing", prefix_, key);
    }
    const auto number = value->Number();
    if (!number || !(std::abs(*number) <= std::numeric_limits<float>::max())) {
      return Fail(Code::kInvalid, "metadata '{}{}' must be a finite number", prefix_, key);
    }
    return *number;
  }

  Result<float> F32(std::string_view key, std::optional<double> absent = {}) const {
    return static_cast<float>(PIE_TRY(Number(key, absent)));
  }

  bool HasTensor(std::string_view name) const { return gguf_.tensors().Find(name) != nullptr; }

  // Reads a list of `count` numbers that is stored as a tensor.
  Result<std::vector<float>> Floats(std::string_view name, size_t count) const {
    const Tensor* tensor = gguf_.tensors().Find(name);
    if (tensor == nullptr || tensor->elements() != count) {
      return Fail(Code::kInvalid, "the file has no tensor '{}' of {} numbers", name, count);
    }
    std::vector<float> values(count);
    PIE_RETURN_IF_ERROR(Dequantize(tensor->dtype, tensor->data, values));
    return values;
  }

 private:
  static std::string Text(std::string_view text) { return std::string(text); }

  const Gguf& gguf_;
  std::string prefix_;
};

Result<Architecture> ReadArchitecture(const Gguf& gguf) {
  const GgufValue* value = gguf.Find("general.architecture");
  const auto name = value ? value->String() : std::nullopt;
  if (!name) return Fail(Code::kInvalid, "metadata 'general.architecture' is missing");
  std::string known;
  for (const Architecture architecture : kKnown) {
    if (*name == NameOf(architecture)) return architecture;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", NameOf(architecture));
  }
  return Fail(Code::kUnavailable, "unknown architecture '{}'; known architectures: {}",
              Shown(*name), known);
}

Status ReadVocabulary(const Gguf& gguf, const Fields& fields, ModelConfig& config) {
  uint64_t tokens = 0;
  if (const Tensor* embedding = gguf.tensors().Find("token_embd.weight")) {
    if (embedding->shape.size() == 2) tokens = embedding->shape[0];
  } else if (const GgufValue* list = gguf.Find("tokenizer.ggml.tokens")) {
    tokens = list->size();
  }
  if (tokens == 0) tokens = PIE_TRY(fields.U32("vocab_size"));
  config.vocab_size =
      static_cast<uint32_t>(std::min<uint64_t>(tokens, std::numeric_limits<uint32_t>::max()));
  return {};
}

Status ReadSizes(const Gguf& gguf, const Fields& fields, ModelConfig& config) {
  config.layers = PIE_TRY(fields.U32("block_count"));
  config.context_length = PIE_TRY(fields.U32("context_length"));
  config.hidden_size = PIE_TRY(fields.U32("embedding_length"));
  config.heads = PIE_TRY(fields.U32("attention.head_count"));
  config.kv_heads = PIE_TRY(fields.U32("attention.head_count_kv", config.heads));
  if (config.heads == 0) return Fail(Code::kInvalid, "the number of heads is 0");
  config.head_dim = PIE_TRY(fields.U32("attention.key_length", config.hidden_size / config.heads));
  if (PIE_TRY(fields.U32("attention.value_length", config.head_dim)) != config.head_dim) {
    return Fail(Code::kUnavailable, "keys and values of different lengths are not supported");
  }
  config.ffn_size = PIE_TRY(fields.U32("feed_forward_length", 0));
  config.moe.experts = PIE_TRY(fields.U32("expert_count", 0));
  if (config.moe.experts != 0) {
    config.moe.experts_used = PIE_TRY(fields.U32("expert_used_count"));
    config.moe.ffn_size = PIE_TRY(fields.U32("expert_feed_forward_length", config.ffn_size));
  }
  config.rope.dims = PIE_TRY(fields.U32("rope.dimension_count", config.head_dim));
  PIE_RETURN_IF_ERROR(ReadVocabulary(gguf, fields, config));
  return CheckSizes(config);
}

Result<Scaling> ReadScaling(const Fields& fields) {
  // Converters store the factors of Llama 3 and of LongRope as tensors.
  if (fields.HasTensor("rope_freqs.weight")) return Scaling::kLlama3;
  if (fields.HasTensor("rope_factors_long.weight")) return Scaling::kLongRope;
  const GgufValue* type = fields.Find("rope.scaling.type");
  if (type == nullptr) return Scaling::kNone;
  const std::string_view name = type->String().value_or("");
  if (name == "none") return Scaling::kNone;
  if (name == "linear") return Scaling::kLinear;
  if (name == "yarn") return Scaling::kYarn;
  return Fail(Code::kUnavailable, "unknown rotary scaling '{}'; known: none, linear, yarn",
              Shown(name));
}

Status ReadRope(const Fields& fields, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  const bool is_llama =
      config.architecture == Architecture::kLlama || config.architecture == Architecture::kMixtral;
  rope.pairing = is_llama ? RopeConfig::Pairing::kNeighbours : RopeConfig::Pairing::kHalves;
  rope.theta = PIE_TRY(fields.Number("rope.freq_base", rope.theta));
  if (rope.sliding_theta != 0) {
    rope.sliding_theta = PIE_TRY(fields.Number("rope.freq_base_swa", rope.sliding_theta));
  }
  rope.original_context =
      PIE_TRY(fields.U32("rope.scaling.original_context_length", config.context_length));
  rope.scaling = PIE_TRY(ReadScaling(fields));
  const double factor = PIE_TRY(fields.Number("rope.scaling.factor", 1));
  switch (rope.scaling) {
    case Scaling::kNone:
      break;
    case Scaling::kLinear:
      rope.factors = LinearFactors(rope, factor);
      break;
    case Scaling::kLlama3:
      rope.factors = PIE_TRY(fields.Floats("rope_freqs.weight", rope.dims / 2));
      break;
    case Scaling::kYarn: {
      const double fast = PIE_TRY(fields.Number("rope.scaling.yarn_beta_fast", 32));
      const double slow = PIE_TRY(fields.Number("rope.scaling.yarn_beta_slow", 1));
      const bool whole_pairs = config.architecture != Architecture::kGptOss;
      rope.factors = YarnFactors(rope, factor, fast, slow, whole_pairs);
      const double attention = PIE_TRY(fields.Number("rope.scaling.attn_factor", 1));
      rope.attention_factor = static_cast<float>(attention * YarnAttentionFactor(factor));
      break;
    }
    case Scaling::kLongRope: {
      rope.factors = PIE_TRY(fields.Floats("rope_factors_short.weight", rope.dims / 2));
      rope.long_factors = PIE_TRY(fields.Floats("rope_factors_long.weight", rope.dims / 2));
      const double stretch =
          static_cast<double>(config.context_length) / std::max(rope.original_context, 1U);
      rope.attention_factor = PIE_TRY(fields.F32(
          "rope.scaling.attn_factor", LongRopeAttentionFactor(stretch, rope.original_context)));
      break;
    }
  }
  return {};
}

Status ReadAttention(const Fields& fields, ModelConfig& config) {
  config.attention_softcap = PIE_TRY(fields.F32("attn_logit_softcapping", 0));
  config.final_softcap = PIE_TRY(fields.F32("final_logit_softcapping", 0));
  config.attention_scale = PIE_TRY(fields.F32("attention.scale", 0));
  // The two largest Gemmas scale by hidden_size / heads. Their files do not say so.
  const bool largest_gemma =
      (config.architecture == Architecture::kGemma2 && config.layers == 46) ||
      (config.architecture == Architecture::kGemma3 && config.layers == 62);
  if (largest_gemma && config.attention_scale == 0) {
    config.attention_scale =
        1 / std::sqrt(static_cast<float>(config.hidden_size) / static_cast<float>(config.heads));
  }

  config.sliding_window = PIE_TRY(fields.U32("attention.sliding_window", 0));
  const GgufValue* pattern = fields.Find("attention.sliding_window_pattern");
  if (const auto layers = pattern ? pattern->Bools() : std::nullopt) {
    config.sliding_layers = *layers;
  } else {
    SetSlidingPattern(config, PIE_TRY(fields.U32("attention.sliding_window_pattern",
                                                 FamilySlidingPeriod(config.architecture))));
  }
  return {};
}

Result<ModelConfig> Read(const Gguf& gguf) {
  Architecture architecture = PIE_TRY(ReadArchitecture(gguf));
  const Fields fields(gguf, NameOf(architecture));
  if (architecture == Architecture::kLlama && PIE_TRY(fields.U32("expert_count", 0)) != 0) {
    architecture = Architecture::kMixtral;
  }
  ModelConfig config = FamilyConfig(architecture);
  PIE_RETURN_IF_ERROR(ReadSizes(gguf, fields, config));
  config.norm_eps = PIE_TRY(fields.F32("attention.layer_norm_rms_epsilon"));
  PIE_RETURN_IF_ERROR(ReadRope(fields, config));
  PIE_RETURN_IF_ERROR(ReadAttention(fields, config));
  if (gguf.tensors().size() != 0) {  // otherwise the file holds only a vocabulary
    config.tied_embeddings = !fields.HasTensor("output.weight");
    config.qkv_bias =
        fields.HasTensor("blk.0.attn_q.bias") || fields.HasTensor("blk.0.attn_qkv.bias");
    config.attention_output_bias = fields.HasTensor("blk.0.attn_output.bias");
    config.ffn_bias =
        fields.HasTensor("blk.0.ffn_down.bias") || fields.HasTensor("blk.0.ffn_down_exps.bias");
  }
  PIE_RETURN_IF_ERROR(FinishConfig(config));
  return config;
}

}  // namespace

Result<ModelConfig> ReadConfig(const Gguf& gguf) {
  auto config = Read(gguf);
  if (config) return config;
  return Fail(config.error().code, "{}: {}", gguf.name(), config.error().text);
}

}  // namespace pie
