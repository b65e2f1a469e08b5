#include "model/weight_names.h"

#include <fmt/format.h>

namespace pie {
namespace {

WeightNames GgufNames(const ModelConfig& config) {
  WeightNames names{.embedding = "token_embd.weight",
                    .output_norm = "output_norm.weight",
                    .output = "output.weight",
                    .layer = "blk.{}.",
                    .attention_norm = "attn_norm",
                    .q = "attn_q",
                    .k = "attn_k",
                    .v = "attn_v",
                    .qkv = "attn_qkv",
                    .o = "attn_output",
                    .q_norm = "attn_q_norm",
                    .k_norm = "attn_k_norm",
                    .sinks = "attn_sinks.weight",
                    .attention_post_norm = "post_attention_norm",
                    .ffn_norm = "ffn_norm",
                    .ffn_post_norm = "post_ffw_norm",
                    .gate = "ffn_gate",
                    .up = "ffn_up",
                    .down = "ffn_down",
                    .gate_up = "ffn_up",
                    .router = "ffn_gate_inp",
                    .expert_gate = "ffn_gate_exps",
                    .expert_up = "ffn_up_exps",
                    .expert_down = "ffn_down_exps",
                    .everything_is_known = true};
  if (config.architecture == Architecture::kGptOss) names.ffn_norm = "post_attention_norm";
  return names;
}

WeightNames HuggingFaceNames(const ModelConfig& config, std::string_view model) {
  WeightNames names{.embedding = fmt::format("{}embed_tokens.weight", model),
                    .output_norm = fmt::format("{}norm.weight", model),
                    .output = "lm_head.weight",
                    .layer = fmt::format("{}layers.{{}}.", model),
                    .attention_norm = "input_layernorm",
                    .q = "self_attn.q_proj",
                    .k = "self_attn.k_proj",
                    .v = "self_attn.v_proj",
                    .qkv = "self_attn.qkv_proj",
                    .o = "self_attn.o_proj",
                    .q_norm = "self_attn.q_norm",
                    .k_norm = "self_attn.k_norm",
                    .sinks = "self_attn.sinks",
                    .attention_post_norm = "post_attention_layernorm",
                    .ffn_norm = "post_attention_layernorm",
                    .ffn_post_norm = "post_feedforward_layernorm",
                    .gate = "mlp.gate_proj",
                    .up = "mlp.up_proj",
                    .down = "mlp.down_proj",
                    .gate_up = "mlp.gate_up_proj",
                    .router = "mlp.gate",
                    .expert_gate = "mlp.experts.{}.gate_proj",
                    .expert_up = "mlp.experts.{}.up_proj",
                    .expert_down = "mlp.experts.{}.down_proj",
                    .experts = ExpertStorage::kEach};
  if (config.norms == NormPlacement::kAround) names.ffn_norm = "pre_feedforward_layernorm";
  if (config.architecture == Architecture::kMixtral) {
    names.router = "block_sparse_moe.gate";
    names.expert_gate = "block_sparse_moe.experts.{}.w1";
    names.expert_up = "block_sparse_moe.experts.{}.w3";
    names.expert_down = "block_sparse_moe.experts.{}.w2";
  }
  if (config.architecture == Architecture::kGptOss) {
    names.router = "mlp.router";
    names.expert_gate = names.expert_up = "mlp.experts.gate_up_proj";
    names.expert_down = "mlp.experts.down_proj";
    names.experts = ExpertStorage::kInterleaved;
  }
  return names;
}

// Multimodal models contain the language model as a part. Versions of transformers differ in the
// order of the prefixes.
std::string_view ModelPrefix(const TensorTable& tensors) {
  for (const std::string_view prefix : {"model.language_model.", "language_model.model."}) {
    if (tensors.Find(fmt::format("{}embed_tokens.weight", prefix)) != nullptr) return prefix;
  }
  return "model.";
}

}  // namespace

std::string WeightNames::InLayer(uint32_t index, std::string_view part) const {
  return fmt::format(fmt::runtime(layer), index) + std::string(part);
}

WeightNames NamesOf(const ModelFiles& files) {
  if (files.naming() == ModelFiles::Naming::kGguf) return GgufNames(files.config());
  return HuggingFaceNames(files.config(), ModelPrefix(files.tensors()));
}

}  // namespace pie
