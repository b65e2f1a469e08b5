// What the tensors of a model are called: in GGUF files by one scheme, in Hugging Face's folders by
// another with differences between families. Data; the loader asks no architecture.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/model_files.h"

namespace pie::cpu {

// How the experts of a layer are kept.
enum class ExpertStorage {
  kStacked,      // one tensor for all, [experts, rows, columns]
  kEach,         // a tensor each; names have a {} for its number
  kInterleaved,  // gpt-oss: [experts, columns, rows], the rows of gate and up in turn
};

struct WeightNames {
  // Whole names.
  std::string embedding, output_norm, output;
  // What stands before the names below; {} is the layer's number.
  std::string layer;
  // Without ".weight" and ".bias", and only where a model has such a thing.
  std::string_view attention_norm, q, k, v, qkv, o, q_norm, k_norm;
  std::string_view sinks;  // whole
  std::string_view attention_post_norm, ffn_norm, ffn_post_norm;
  std::string_view gate, up, down, gate_up;
  std::string_view router, expert_gate, expert_up, expert_down;
  ExpertStorage experts = ExpertStorage::kStacked;
  bool everything_is_known = false;  // a tensor with another name than these is an error

  // "blk.3." + part
  std::string InLayer(uint32_t index, std::string_view part) const;
};

WeightNames NamesOf(const ModelFiles& files);

}  // namespace pie::cpu
