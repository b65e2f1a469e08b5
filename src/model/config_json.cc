#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "model/config.h"
#include "model/config_family.h"
#include "model/json_fields.h"
#include "model/json_text.h"
#include "model/limits.h"
#include "model/mapped_file.h"
#include "model/shown.h"

namespace pie {
namespace {

using nlohmann::json;
using Scaling = RopeConfig::Scaling;

struct Known {
  std::string_view model_type;
  Architecture architecture;
};
constexpr Known kKnown[] = {
    {"llama", Architecture::kLlama},        {"mistral", Architecture::kLlama},
    {"mixtral", Architecture::kMixtral},    {"qwen2", Architecture::kQwen2},
    {"qwen3", Architecture::kQwen3},        {"qwen3_moe", Architecture::kQwen3Moe},
    {"gemma2", Architecture::kGemma2},      {"gemma3", Architecture::kGemma3},
    {"gemma3_text", Architecture::kGemma3}, {"phi3", Architecture::kPhi3},
    {"olmo2", Architecture::kOlmo2},        {"gpt_oss", Architecture::kGptOss}};

using Fields = JsonFields;

Result<Architecture> ReadArchitecture(const Fields& fields) {
  const std::string name = fields.Text("model_type");
  std::string known;
  for (const Known& one : kKnown) {
    if (one.model_type == name) return one.architecture;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.model_type);
  }
  return Fail(Code::kUnavailable, "unknown model_type '{}'; known types: {}", Shown(name), known);
}

Status ReadBlockSize(const json* sizes, Fp8Config& fp8) {
  if (sizes == nullptr) return {};
  const auto is_size = [](const json& size) {
    return size.is_number_unsigned() && size >= 1 && size <= 1 << 20;
  };
  if (!sizes->is_array() || sizes->size() != 2 || !std::ranges::all_of(*sizes, is_size)) {
    return Fail(Code::kInvalid, "the block size of fp8 weights must be [rows, columns]");
  }
  fp8.block_rows = (*sizes)[0].get<uint32_t>();
  fp8.block_columns = (*sizes)[1].get<uint32_t>();
  return {};
}

// Several tools publish fp8 weights. Their configurations differ, but their tensors have the same
// form (checked_tensors.h). The tools also round activations; the engine keeps activations in 16
// bits.
Status ReadQuantization(const Fields& fields, ModelConfig& config) {
  const json* quantized = fields.Object("quantization_config");
  if (quantized == nullptr) return {};
  const Fields of(*quantized);
  const std::string method = of.Text("quant_method", "?");
  if (method == "mxfp4") return {};
  const bool compressed = method == "compressed-tensors";
  bool known = (method == "fp8" && of.Text("fmt", "e4m3") == "e4m3") || method == "fbgemm_fp8" ||
               (method == "modelopt" && of.Text("quant_algo") == "FP8");
  PIE_RETURN_IF_ERROR(ReadBlockSize(of.Find("weight_block_size"), config.fp8));
  if (const json* groups = of.Object("config_groups"); compressed && groups != nullptr) {
    known = of.Text("format") == "float-quantized";
    for (const json& group : *groups) {
      const json* weights = group.is_object() ? Fields(group).Object("weights") : nullptr;
      if (weights == nullptr) {
        known = false;
        break;
      }
      const Fields scheme(*weights);
      known = known && scheme.Text("type") == "float" && PIE_TRY(scheme.U32("num_bits", 0)) == 8 &&
              PIE_TRY(scheme.Bool("symmetric", true));
      PIE_RETURN_IF_ERROR(ReadBlockSize(scheme.Find("block_structure"), config.fp8));
    }
  }
  if (!known) {
    return Fail(Code::kUnavailable,
                "weights quantised by '{}' are not supported; supported: fp8 (e4m3) and mxfp4; use "
                "a GGUF or the original weights",
                Shown(method));
  }
  config.fp8.used = true;
  return {};
}

// Refuses settings that the engine does not support. Ignoring them would give wrong results.
Status CheckSupported(const Fields& fields, const ModelConfig& config) {
  const bool gelu = config.activation == Activation::kGeluTanh;
  const std::string activation = fields.Text("hidden_activation", fields.Text("hidden_act"));
  if (!activation.empty() && activation != (gelu ? "gelu_pytorch_tanh" : "silu")) {
    return Fail(Code::kUnavailable, "activation '{}' is not supported for {}", Shown(activation),
                NameOf(config.architecture));
  }
  if (PIE_TRY(fields.Number("swiglu_alpha", 1.702)) != 1.702 ||
      PIE_TRY(fields.Number("swiglu_limit", 7)) != 7) {
    return Fail(Code::kUnavailable, "only swiglu_alpha = 1.702 and swiglu_limit = 7 are supported");
  }
  if (PIE_TRY(fields.Bool("use_bidirectional_attention", false))) {
    return Fail(Code::kUnavailable, "'use_bidirectional_attention' is not supported");
  }
  const json* dense = fields.Find("mlp_only_layers");
  if (PIE_TRY(fields.U32("decoder_sparse_step", 1)) != 1 || (dense && !dense->empty())) {
    return Fail(Code::kUnavailable,
                "a mix of dense layers and layers with experts is not supported");
  }
  return {};
}

Status ReadSizes(const Fields& fields, ModelConfig& config) {
  const Architecture architecture = config.architecture;
  const bool gemma3 = architecture == Architecture::kGemma3;
  // The files of multimodal Gemma 3 models leave out the family's default values.
  const auto gemma = [&](uint32_t value) {
    return gemma3 ? std::optional(value) : std::optional<uint32_t>();
  };
  config.layers = PIE_TRY(fields.U32("num_hidden_layers", gemma(26)));
  config.hidden_size = PIE_TRY(fields.U32("hidden_size", gemma(2304)));
  config.vocab_size = PIE_TRY(fields.U32("vocab_size", gemma(262'208)));
  config.context_length = PIE_TRY(fields.U32("max_position_embeddings", gemma(131'072)));
  config.heads = PIE_TRY(fields.U32("num_attention_heads", gemma(8)));
  config.kv_heads = PIE_TRY(fields.U32("num_key_value_heads", gemma3 ? 4 : config.heads));
  if (config.heads == 0)
    return Fail(Code::kInvalid, "'num_attention_heads' is 0; it must be at least 1");
  if (fields.Find("head_dim") == nullptr && !gemma3 && config.hidden_size % config.heads != 0) {
    return Fail(Code::kInvalid,
                "{} heads do not divide a hidden size of {}, and head_dim is missing", config.heads,
                config.hidden_size);
  }
  config.head_dim =
      PIE_TRY(fields.U32("head_dim", gemma3 ? 256 : config.hidden_size / config.heads));
  config.ffn_size = PIE_TRY(fields.U32("intermediate_size", gemma(9216)));
  if (architecture == Architecture::kMixtral || architecture == Architecture::kQwen3Moe ||
      architecture == Architecture::kGptOss) {
    const char* count = fields.Find("num_local_experts") ? "num_local_experts" : "num_experts";
    config.moe.experts = PIE_TRY(fields.U32(count));
    if (config.moe.experts == 0)
      return Fail(Code::kInvalid, "'{}' is 0; it must be at least 1", count);
    config.moe.experts_used = PIE_TRY(fields.U32("num_experts_per_tok"));
    config.moe.ffn_size = PIE_TRY(fields.U32("moe_intermediate_size", config.ffn_size));
    config.moe.renormalize =
        PIE_TRY(fields.Bool("norm_topk_prob", architecture != Architecture::kQwen3Moe));
  }
  // Newer files give the share of rotated dimensions in rope_parameters.
  double share = PIE_TRY(fields.Number("partial_rotary_factor", 1));
  if (const json* rope = fields.Object("rope_parameters")) {
    share = PIE_TRY(Fields(*rope).Number("partial_rotary_factor", share));
  }
  if (!(share > 0 && share <= 1))
    return Fail(Code::kInvalid, "'partial_rotary_factor' is {}; it must be above 0 and at most 1",
                share);
  config.rope.dims = static_cast<uint32_t>(config.head_dim * share);
  return CheckSizes(config);
}

Status ReadScaling(const Fields& fields, const Fields& scaling, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.original_context = PIE_TRY(
      scaling.U32("original_max_position_embeddings",
                  PIE_TRY(fields.U32("original_max_position_embeddings", config.context_length))));
  const std::string type = scaling.Text("rope_type", scaling.Text("type", "default"));
  const double stretch =
      static_cast<double>(config.context_length) / std::max(rope.original_context, 1U);
  if (type == "default" || type == "none") return {};
  if (type == "linear") {
    rope.scaling = Scaling::kLinear;
    rope.factors = LinearFactors(rope, PIE_TRY(scaling.Number("factor")));
  } else if (type == "llama3") {
    rope.scaling = Scaling::kLlama3;
    const double low = PIE_TRY(scaling.Number("low_freq_factor"));
    const double high = PIE_TRY(scaling.Number("high_freq_factor"));
    if (!(high > low)) {
      return Fail(Code::kInvalid, "high_freq_factor {} must be above low_freq_factor {}", high,
                  low);
    }
    rope.factors = Llama3Factors(rope, PIE_TRY(scaling.Number("factor")), low, high);
  } else if (type == "longrope" || type == "su" || scaling.Find("short_factor")) {
    rope.scaling = Scaling::kLongRope;  // older Phi files call it su or yarn
    rope.factors = PIE_TRY(scaling.Floats("short_factor"));
    rope.long_factors = PIE_TRY(scaling.Floats("long_factor"));
    const double factor = PIE_TRY(scaling.Number("factor", stretch));
    rope.attention_factor = PIE_TRY(
        scaling.F32("attention_factor", LongRopeAttentionFactor(factor, rope.original_context)));
  } else if (type == "yarn") {
    rope.scaling = Scaling::kYarn;
    const double factor = PIE_TRY(scaling.Number("factor", stretch));
    rope.factors = YarnFactors(rope, factor, PIE_TRY(scaling.Number("beta_fast", 32)),
                               PIE_TRY(scaling.Number("beta_slow", 1)),
                               PIE_TRY(scaling.Bool("truncate", true)));
    double attention = YarnAttentionFactor(factor);
    if (scaling.Find("mscale") && scaling.Find("mscale_all_dim")) {
      attention = YarnAttentionFactor(factor, PIE_TRY(scaling.Number("mscale"))) /
                  YarnAttentionFactor(factor, PIE_TRY(scaling.Number("mscale_all_dim")));
    }
    rope.attention_factor = PIE_TRY(scaling.F32("attention_factor", attention));
  } else {
    return Fail(Code::kUnavailable,
                "unknown rotary scaling '{}'; known: linear, llama3, yarn, longrope", Shown(type));
  }
  return {};
}

// Older files have rope_theta and rope_scaling. Newer ones have rope_parameters, either one set for
// all layers or one for each kind of layer.
Status ReadRope(const Fields& fields, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  if (config.architecture == Architecture::kMixtral) rope.theta = 1'000'000;
  rope.theta = PIE_TRY(fields.Number("rope_theta", rope.theta));
  if (rope.sliding_theta != 0) {
    rope.sliding_theta = PIE_TRY(fields.Number("rope_local_base_freq", rope.sliding_theta));
  }
  const json* parameters = fields.Object("rope_parameters");
  if (parameters == nullptr) parameters = fields.Object("rope_scaling");
  if (parameters == nullptr) return ReadScaling(fields, Fields(json::object()), config);
  if (const json* sliding = Fields(*parameters).Object("sliding_attention")) {
    rope.sliding_theta = PIE_TRY(Fields(*sliding).Number("rope_theta", rope.sliding_theta));
  }
  if (const json* full = Fields(*parameters).Object("full_attention")) parameters = full;
  rope.theta = PIE_TRY(Fields(*parameters).Number("rope_theta", rope.theta));
  return ReadScaling(fields, Fields(*parameters), config);
}

Status ReadWindow(const Fields& fields, ModelConfig& config) {
  double absent = 0;
  uint32_t period = FamilySlidingPeriod(config.architecture);
  uint32_t first = 0;  // index of the first sliding layer
  switch (config.architecture) {
    case Architecture::kGemma3:
      period = PIE_TRY(fields.U32("sliding_window_pattern", period));
      [[fallthrough]];
    case Architecture::kGemma2:
      absent = 4096;
      break;
    case Architecture::kGptOss:
      absent = 128;
      break;
    case Architecture::kLlama:
      if (fields.Text("model_type") == "mistral") absent = 4096;
      break;
    case Architecture::kQwen2:
    case Architecture::kQwen3:
    case Architecture::kQwen3Moe:
      if (!PIE_TRY(fields.Bool("use_sliding_window", false))) return {};
      first = PIE_TRY(fields.U32("max_window_layers", 28));
      break;
    default:
      break;
  }
  const double window = PIE_TRY(fields.NumberOrNone("sliding_window", absent));
  if (window < 0 || window != std::floor(window)) {
    return Fail(Code::kInvalid, "'sliding_window' is {}; it must be a whole number", window);
  }
  config.sliding_window = static_cast<uint32_t>(std::min<double>(window, limits::kContextLength));
  SetSlidingPattern(config, period);
  for (uint32_t layer = 0; layer < std::min(first, config.layers); ++layer) {
    config.sliding_layers[layer] = false;
  }
  if (const json* kinds = fields.Find("layer_types"); kinds && kinds->is_array()) {
    config.sliding_layers.clear();
    for (const json& kind : *kinds) {
      if (kind != "sliding_attention" && kind != "full_attention") {
        return Fail(Code::kUnavailable,
                    "layer type {} is not supported; supported: sliding_attention, full_attention",
                    Shown(kind.dump(-1, ' ', false, json::error_handler_t::replace)));
      }
      config.sliding_layers.push_back(kind == "sliding_attention");
    }
  }
  return {};
}

Status ReadAttention(const Fields& fields, ModelConfig& config) {
  const Architecture architecture = config.architecture;
  if (architecture == Architecture::kGemma2 || architecture == Architecture::kGemma3) {
    const bool gemma2 = architecture == Architecture::kGemma2;
    config.norm_offset = 1;
    config.attention_softcap =
        static_cast<float>(PIE_TRY(fields.NumberOrNone("attn_logit_softcapping", gemma2 ? 50 : 0)));
    config.final_softcap = static_cast<float>(
        PIE_TRY(fields.NumberOrNone("final_logit_softcapping", gemma2 ? 30 : 0)));
    const double scalar = PIE_TRY(fields.Number("query_pre_attn_scalar", 256));
    if (!(scalar > 0))
      return Fail(Code::kInvalid, "'query_pre_attn_scalar' is {}; it must be above 0", scalar);
    config.attention_scale = static_cast<float>(1 / std::sqrt(scalar));
  }
  // Qwen 2 always has the biases of q, k and v and no other
  if (architecture != Architecture::kQwen2) {
    const bool bias = PIE_TRY(fields.Bool("attention_bias", config.qkv_bias));
    config.qkv_bias = config.attention_output_bias = bias;
  }
  config.ffn_bias = PIE_TRY(fields.Bool("mlp_bias", config.ffn_bias));
  return ReadWindow(fields, config);
}

Result<ModelConfig> Read(const json& file) {
  const Fields whole(file);
  const Architecture architecture = PIE_TRY(ReadArchitecture(whole));
  const json* text = whole.Object("text_config");  // the language model in a multimodal one
  const Fields fields(architecture == Architecture::kGemma3 && text ? *text : file);
  ModelConfig config = FamilyConfig(architecture);
  PIE_RETURN_IF_ERROR(CheckSupported(fields, config));
  PIE_RETURN_IF_ERROR(
      ReadQuantization(fields.Object("quantization_config") == nullptr ? whole : fields, config));
  PIE_RETURN_IF_ERROR(ReadSizes(fields, config));
  config.norm_eps = PIE_TRY(fields.F32("rms_norm_eps", config.norm_eps));
  config.tied_embeddings = PIE_TRY(fields.Bool(
      "tie_word_embeddings", PIE_TRY(whole.Bool("tie_word_embeddings", config.tied_embeddings))));
  PIE_RETURN_IF_ERROR(ReadRope(fields, config));
  PIE_RETURN_IF_ERROR(ReadAttention(fields, config));
  PIE_RETURN_IF_ERROR(FinishConfig(config));
  return config;
}

}  // namespace

Result<ModelConfig> ReadConfigJson(std::string_view text, std::string_view name) {
  if (text.size() > limits::kConfigBytes) {
    return Fail(Code::kInvalid, "{}: the file has {} bytes; at most {} are allowed", name,
                text.size(), limits::kConfigBytes);
  }
  const json file = PIE_TRY(ParseJsonObject(text, name, 16));
  auto config = Read(file);
  if (config) return config;
  return Fail(config.error().code, "{}: {}", name, config.error().text);
}

Result<ModelConfig> OpenConfigJson(const std::filesystem::path& path) {
  const MappedFile file = PIE_TRY(MappedFile::Open(path));
  const auto bytes = file.bytes();
  return ReadConfigJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

}  // namespace pie
