#include "backend/cpu/weights/weights.h"

#include <string>
#include <string_view>
#include <utility>

#include "backend/cpu/weights/expert_weights.h"
#include "model/weight_names.h"

namespace pie::cpu {
namespace {

// Loads one layer's tensors, except for experts.
class LayerLoader {
 public:
  LayerLoader(WeightReader& reader, const ModelConfig& config, const WeightNames& names,
              uint32_t layer)
      : reader_(reader), config_(config), names_(names), layer_(layer) {}

  Result<LayerWeights> Load() {
    LayerWeights out;
    PIE_RETURN_IF_ERROR(Norms(out));
    PIE_RETURN_IF_ERROR(Attention(out));
    if (config_.moe.experts == 0) {
      PIE_RETURN_IF_ERROR(FeedForward(out.ffn));
      return out;
    }
    out.router = PIE_TRY(
        One(names_.router, config_.moe.experts, config_.hidden_size, config_.moe.router_bias));
    out.experts = PIE_TRY(LoadExperts(reader_, config_, names_, layer_));
    return out;
  }

 private:
  std::string Name(std::string_view part, std::string_view kind) const {
    return names_.InLayer(layer_, part).append(kind);
  }

  Result<std::vector<float>> Norm(std::string_view part, uint64_t size) {
    auto weights = PIE_TRY(reader_.Floats(Name(part, ".weight"), {size}));
    for (float& weight : weights) weight += config_.norm_offset;
    return weights;
  }

  Result<Linear> One(std::string_view part, uint64_t rows, uint64_t columns, bool bias) {
    Linear linear;
    linear.w = PIE_TRY(reader_.Matrix(Name(part, ".weight"), rows, columns));
    if (bias) linear.bias = PIE_TRY(reader_.Floats(Name(part, ".bias"), {rows}));
    return linear;
  }

  // Splits one tensor into several matrices, which it holds one below the other.
  Status Split(std::string_view part, uint64_t columns, bool bias,
               std::initializer_list<std::pair<Linear*, uint64_t>> parts) {
    uint64_t rows = 0;
    for (const auto& [linear, size] : parts) rows += size;
    const Tensor& tensor = *PIE_TRY(reader_.Find(Name(part, ".weight"), {rows, columns}));
    std::vector<float> biases;
    if (bias) biases = PIE_TRY(reader_.Floats(Name(part, ".bias"), {rows}));
    uint64_t row = 0;
    for (const auto& [linear, size] : parts) {
      linear->w = PIE_TRY(reader_.Rows(tensor, row, size));
      if (bias) linear->bias.assign(&biases[row], &biases[row] + size);
      row += size;
    }
    return {};
  }

  Status Norms(LayerWeights& out) {
    const uint64_t hidden = config_.hidden_size;
    if (config_.norms != NormPlacement::kAfter) {
      out.attention_norm = PIE_TRY(Norm(names_.attention_norm, hidden));
      out.ffn_norm = PIE_TRY(Norm(names_.ffn_norm, hidden));
    }
    if (config_.norms != NormPlacement::kBefore) {
      out.attention_post_norm = PIE_TRY(Norm(names_.attention_post_norm, hidden));
      out.ffn_post_norm = PIE_TRY(Norm(names_.ffn_post_norm, hidden));
    }
    return {};
  }

  Status Attention(LayerWeights& out) {
    const uint64_t hidden = config_.hidden_size;
    const uint64_t head = config_.head_dim;
    const uint64_t q_size = config_.heads * head;
    const uint64_t kv_size = config_.kv_heads * head;
    if (config_.fused_qkv) {
      PIE_RETURN_IF_ERROR(Split(names_.qkv, hidden, config_.qkv_bias,
                                {{&out.q, q_size}, {&out.k, kv_size}, {&out.v, kv_size}}));
    } else {
      out.q = PIE_TRY(One(names_.q, q_size, hidden, config_.qkv_bias));
      out.k = PIE_TRY(One(names_.k, kv_size, hidden, config_.qkv_bias));
      out.v = PIE_TRY(One(names_.v, kv_size, hidden, config_.qkv_bias));
    }
    out.o = PIE_TRY(One(names_.o, hidden, q_size, config_.attention_output_bias));
    if (config_.qk_norm != QkNorm::kNone) {
      const bool each = config_.qk_norm == QkNorm::kHead;
      out.q_norm = PIE_TRY(Norm(names_.q_norm, each ? head : q_size));
      out.k_norm = PIE_TRY(Norm(names_.k_norm, each ? head : kv_size));
    }
    if (config_.attention_sinks) {
      out.sinks = PIE_TRY(reader_.Floats(Name(names_.sinks, ""), {config_.heads}));
    }
    return {};
  }

  Status FeedForward(FeedForwardWeights& out) {
    const uint64_t hidden = config_.hidden_size;
    const uint64_t ffn = config_.ffn_size;
    if (config_.fused_qkv) {
      PIE_RETURN_IF_ERROR(
          Split(names_.gate_up, hidden, config_.ffn_bias, {{&out.gate, ffn}, {&out.up, ffn}}));
    } else {
      out.gate = PIE_TRY(One(names_.gate, ffn, hidden, config_.ffn_bias));
      out.up = PIE_TRY(One(names_.up, ffn, hidden, config_.ffn_bias));
    }
    out.down = PIE_TRY(One(names_.down, hidden, ffn, config_.ffn_bias));
    return {};
  }

  WeightReader& reader_;
  const ModelConfig& config_;
  const WeightNames& names_;
  const uint32_t layer_;
};

}  // namespace

Result<Weights> LoadWeights(const ModelFiles& files, const LoadProgress& progress) {
  const ModelConfig& config = files.config();
  const WeightNames names = NamesOf(files);
  Weights weights{.arena = std::make_unique<Arena>()};
  WeightReader reader(files, *weights.arena, progress);
  // The largest tensors are loaded first, because a tensor is in memory twice while it is packed.
  weights.embedding =
      PIE_TRY(reader.Matrix(names.embedding, config.vocab_size, config.hidden_size));
  if (!config.tied_embeddings) {
    weights.output = PIE_TRY(reader.Matrix(names.output, config.vocab_size, config.hidden_size));
  }
  for (uint32_t i = 0; i < config.layers; ++i) {
    weights.layers.push_back(PIE_TRY(LayerLoader(reader, config, names, i).Load()));
  }
  weights.output_norm = PIE_TRY(reader.Floats(names.output_norm, {config.hidden_size}));
  for (float& weight : weights.output_norm) weight += config.norm_offset;
  PIE_RETURN_IF_ERROR(reader.CheckUnused(names));
  reader.Finish();
  return weights;
}

}  // namespace pie::cpu
