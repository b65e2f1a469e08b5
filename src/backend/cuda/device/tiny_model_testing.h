// For tests: the shape of a model that every device opens at once.
#pragma once

#include "model/config.h"

namespace pie {

inline ModelConfig TinyModel() {
  ModelConfig config;
  config.layers = 1;
  config.hidden_size = 32;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 16;
  config.ffn_size = 64;
  config.vocab_size = 100;
  config.context_length = 256;
  config.norm_eps = 1e-5F;
  config.rope.dims = 16;
  config.attention_scale = 0.25F;
  return config;
}

}  // namespace pie
