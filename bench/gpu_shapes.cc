#include "gpu_shapes.h"

#include <cmath>

#include "must.h"

namespace pie {

ModelConfig ShapeOf(const std::string& name) {
  ModelConfig config;
  config.norm_eps = 1e-5F;
  config.head_dim = 128;
  config.kv_heads = 8;
  config.context_length = 131'072;
  config.rope.theta = 500'000;
  if (name == "8b") {  // Llama 3.1 8B
    config.layers = 32;
    config.hidden_size = 4096;
    config.heads = 32;
    config.ffn_size = 14'336;
    config.vocab_size = 128'256;
  } else if (name == "1b") {  // Llama 3.2 1B
    config.layers = 16;
    config.hidden_size = 2048;
    config.heads = 32;
    config.head_dim = 64;
    config.ffn_size = 8192;
    config.vocab_size = 128'256;
    config.tied_embeddings = true;
  } else if (name == "0.6b") {  // Qwen3 0.6B
    config.architecture = Architecture::kQwen3;
    config.qk_norm = QkNorm::kHead;
    config.layers = 28;
    config.hidden_size = 1024;
    config.heads = 16;
    config.ffn_size = 3072;
    config.vocab_size = 151'936;
    config.tied_embeddings = true;
    config.rope.theta = 1'000'000;
  } else if (name == "30b-a3b") {  // Qwen3 30B-A3B
    config.architecture = Architecture::kQwen3Moe;
    config.qk_norm = QkNorm::kHead;
    config.layers = 48;
    config.hidden_size = 2048;
    config.heads = 32;
    config.kv_heads = 4;
    config.ffn_size = 6144;  // not used: every layer has experts
    config.moe = {.experts = 128, .experts_used = 8, .ffn_size = 768};
    config.vocab_size = 151'936;
    config.norm_eps = 1e-6F;
    config.rope.theta = 1'000'000;
  } else {
    Must<int>(Fail(Code::kInvalid, "unknown shape '{}'; use 8b, 1b, 0.6b or 30b-a3b", name));
  }
  config.rope.dims = config.head_dim;
  config.attention_scale = 1 / std::sqrt(static_cast<float>(config.head_dim));
  return config;
}

}  // namespace pie
