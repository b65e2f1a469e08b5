#include "backend/cpu/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "backend/cpu/attention.h"
#include "model/dequantize.h"

namespace pie::cpu {
namespace {

class Loader {
 public:
  Loader(const Gguf& gguf, const ModelConfig& config, Arena& arena, const LoadProgress& progress)
      : gguf_(gguf), config_(config), arena_(arena), progress_(progress) {
    for (const Tensor& tensor : gguf.tensors().all()) total_ += tensor.data.size();
  }

  Result<PackedMatrix> Matrix(const std::string& name, uint64_t rows, uint64_t columns) {
    const Tensor& tensor = *PIE_TRY(Find(name, {rows, columns}));
    auto packed = PackedMatrix::Pack(tensor.dtype, tensor.data, static_cast<uint32_t>(rows),
                                     static_cast<uint32_t>(columns), arena_);
    if (!packed) {
      return Fail(packed.error().code, "{}: tensor {}: {}", gguf_.name(), name,
                  packed.error().text);
    }
    Report(tensor);
    return packed;
  }

  Result<std::vector<float>> Norm(const std::string& name) {
    const Tensor& tensor = *PIE_TRY(Find(name, {config_.hidden_size}));
    std::vector<float> weights(config_.hidden_size);
    if (Status status = Dequantize(tensor.dtype, tensor.data, weights); !status) {
      return Fail(status.error().code, "{}: tensor {}: {}", gguf_.name(), name,
                  status.error().text);
    }
    for (float& weight : weights) weight += config_.norm_offset;
    Report(tensor);
    return weights;
  }

  Result<LayerWeights> Layer(uint32_t index) {
    const auto name = [&](std::string_view part) {
      return fmt::format("blk.{}.{}.weight", index, part);
    };
    const uint64_t hidden = config_.hidden_size;
    const uint64_t q_size = uint64_t{config_.heads} * config_.head_dim;
    const uint64_t kv_size = uint64_t{config_.kv_heads} * config_.head_dim;
    auto attention_norm = PIE_TRY(Norm(name("attn_norm")));
    auto q = PIE_TRY(Matrix(name("attn_q"), q_size, hidden));
    auto k = PIE_TRY(Matrix(name("attn_k"), kv_size, hidden));
    auto v = PIE_TRY(Matrix(name("attn_v"), kv_size, hidden));
    auto o = PIE_TRY(Matrix(name("attn_output"), hidden, q_size));
    auto ffn_norm = PIE_TRY(Norm(name("ffn_norm")));
    auto gate = PIE_TRY(Matrix(name("ffn_gate"), config_.ffn_size, hidden));
    auto up = PIE_TRY(Matrix(name("ffn_up"), config_.ffn_size, hidden));
    auto down = PIE_TRY(Matrix(name("ffn_down"), hidden, config_.ffn_size));
    return LayerWeights{std::move(attention_norm), q, k, v, o, std::move(ffn_norm), gate, up, down};
  }

 private:
  Result<const Tensor*> Find(const std::string& name, const std::vector<uint64_t>& shape) const {
    const Tensor* const tensor = gguf_.tensors().Find(name);
    if (tensor == nullptr) {
      return Fail(Code::kInvalid,
                  "{}: there is no tensor {}, which {} models need; is the file complete?",
                  gguf_.name(), name, NameOf(config_.architecture));
    }
    if (tensor->shape != shape) {
      return Fail(Code::kInvalid, "{}: tensor {} is [{}], but the file's metadata make it [{}]",
                  gguf_.name(), name, fmt::join(tensor->shape, ", "), fmt::join(shape, ", "));
    }
    return tensor;
  }

  void Report(const Tensor& tensor) {
    done_ += tensor.data.size();
    if (progress_) progress_(done_, total_);
  }

  const Gguf& gguf_;
  const ModelConfig& config_;
  Arena& arena_;
  const LoadProgress& progress_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

Status CheckSupported(const ModelConfig& config) {
  const std::pair<bool, std::string_view> lacking[] = {
      {config.architecture != Architecture::kLlama, "this architecture"},
      {config.moe.experts != 0, "experts"},
      {config.activation != Activation::kSilu, "an activation other than SiLU"},
      {config.norms != NormPlacement::kBefore, "norms after a layer's halves"},
      {config.qk_norm != QkNorm::kNone, "norms of queries and keys"},
      {config.qkv_bias || config.attention_output_bias || config.ffn_bias, "biases"},
      {config.attention_sinks, "attention sinks"},
      {config.fused_qkv, "fused projections"},
      {config.attention_softcap != 0 || config.final_softcap != 0, "soft caps"},
      {config.sliding_window != 0, "a sliding window"},
      {!config.rope.long_factors.empty(), "LongRope"},
      {config.head_dim > Attention::kMaxHeadDim, "heads of more than 256 numbers"},
  };
  for (const auto& [needed, what] : lacking) {
    if (needed) {
      return Fail(
          Code::kUnavailable,
          "the CPU backend cannot run this {} model: it lacks {}; choose a dense llama model",
          NameOf(config.architecture), what);
    }
  }
  return {};
}

Result<Weights> LoadWeights(const Gguf& gguf, const ModelConfig& config,
                            const LoadProgress& progress) {
  PIE_RETURN_IF_ERROR(CheckSupported(config));
  auto arena = std::make_unique<Arena>();
  Loader loader(gguf, config, *arena, progress);
  auto embedding =
      PIE_TRY(loader.Matrix("token_embd.weight", config.vocab_size, config.hidden_size));
  std::vector<LayerWeights> layers;
  for (uint32_t i = 0; i < config.layers; ++i) layers.push_back(PIE_TRY(loader.Layer(i)));
  auto output_norm = PIE_TRY(loader.Norm("output_norm.weight"));
  std::optional<PackedMatrix> output;
  if (!config.tied_embeddings) {
    output = PIE_TRY(loader.Matrix("output.weight", config.vocab_size, config.hidden_size));
  }
  return Weights{std::move(arena), embedding, std::move(layers), std::move(output_norm), output};
}

}  // namespace pie::cpu
