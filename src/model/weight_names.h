// The names of a model's tensors. GGUF files have one naming scheme, Hugging Face folders another
// that differs between families. Pure data, so the loader need not know the architecture.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/model_files.h"

namespace pie {

// How files store the experts of a layer.
enum class ExpertStorage {
  kStacked,      // one tensor for all, [experts, rows, columns]
  kEach,         // one tensor per expert; names have a {} for its number
  kInterleaved,  // gpt-oss: [experts, columns, rows], the rows of gate and up alternating
};

struct WeightNames {
  // Complete names.
  std::string embedding, output_norm, output;
  // Prefix of the names below; {} is the layer's number.
  std::string layer;
  // Names without ".weight" and ".bias". Only those that the model has are used.
  std::string_view attention_norm, q, k, v, qkv, o, q_norm, k_norm;
  std::string_view sinks;  // a complete name
  std::string_view attention_post_norm, ffn_norm, ffn_post_norm;
  std::string_view gate, up, down, gate_up;
  std::string_view router, expert_gate, expert_up, expert_down;
  ExpertStorage experts = ExpertStorage::kStacked;
  bool everything_is_known = false;  // a tensor with any other name is an error

  // Returns "blk.3." + part.
  std::string InLayer(uint32_t index, std::string_view part) const;
};

WeightNames NamesOf(const ModelFiles& files);

}  // namespace pie
