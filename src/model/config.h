// ModelConfig: everything that a backend must know about a model besides its weights, in one form
// for GGUF metadata and for Hugging Face's config.json. A plain value. The readers resolve scales,
// factors and the set of sliding layers, so no backend asks which family it runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "model/rope.h"

namespace pie {

enum class Architecture {
  kLlama,  // Llama and Mistral
  kMixtral,
  kQwen2,
  kQwen3,
  kQwen3Moe,
  kGemma2,
  kGemma3,
  kPhi3,
  kOlmo2,
  kGptOss,
};

// The name that errors and listings show: "llama", "gpt-oss", …
std::string_view NameOf(Architecture architecture);

enum class Activation {
  kSilu,      // silu(gate) × up
  kGeluTanh,  // gelu(gate) × up
  // gpt-oss: gate × sigmoid(1.702 × gate) × (up + 1), where gate is clamped to at most 7, up to ±7.
  kClampedSwiglu,
};

enum class NormPlacement {
  kBefore,  // before attention and before the feed-forward part
  kAfter,   // after both, before the residual is added (OLMo 2)
  kAround,  // before and after both (Gemma)
};

enum class QkNorm {
  kNone,
  kHead,   // each head of q and k alone
  kWhole,  // all heads as one vector (OLMo 2)
};

struct MoeConfig {
  uint32_t experts = 0;  // 0: dense
  uint32_t experts_used = 0;
  uint32_t ffn_size = 0;    // width of each expert
  bool renormalize = true;  // the chosen experts' weights sum to 1
  bool router_bias = false;
};

// Weights of checkpoints in fp8 (e4m3), whose scales are in tensors beside them.
struct Fp8Config {
  bool used = false;
  // Of the weights that share a scale, if it is stored in blocks; 0: never.
  uint32_t block_rows = 0;
  uint32_t block_columns = 0;
};

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  uint32_t layers = 0;
  uint32_t hidden_size = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;  // heads × head_dim need not be hidden_size
  uint32_t ffn_size = 0;  // width of dense layers
  uint32_t vocab_size = 0;
  uint32_t context_length = 0;  // longest sequence that the model was trained for

  RopeConfig rope;
  MoeConfig moe;
  Fp8Config fp8;

  Activation activation = Activation::kSilu;
  NormPlacement norms = NormPlacement::kBefore;
  float norm_eps = 1e-6F;
  // added to every norm's weights; 1 for Gemma, whose files store them minus 1
  float norm_offset = 0;
  float embedding_scale = 1;
  bool tied_embeddings = false;  // the embedding's weights are also the output layer's

  float attention_scale = 0;  // factor of q · k
  QkNorm qk_norm = QkNorm::kNone;
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool ffn_bias = false;
  bool attention_sinks = false;  // one learned logit per head, which takes weight and adds no value
  bool fused_qkv = false;        // one tensor for q, k and v, and one for gate and up (Phi 3)
  float attention_softcap = 0;   // x → cap × tanh(x / cap); 0: none
  float final_softcap = 0;       // the same for the logits

  // tokens that a sliding layer sees, the token itself included; 0: all
  uint32_t sliding_window = 0;
  std::vector<bool> sliding_layers;  // [layers] when there is a window, else empty

  bool IsSliding(uint32_t layer) const { return sliding_window != 0 && sliding_layers[layer]; }
};

// An unknown architecture is kUnavailable, with a list of the known ones; an impossible value is
// kInvalid. Errors name the file and the field.
Result<ModelConfig> ReadConfig(const Gguf& gguf);
Result<ModelConfig> ReadConfigJson(std::string_view json, std::string_view name);
Result<ModelConfig> OpenConfigJson(const std::filesystem::path& path);

}  // namespace pie
