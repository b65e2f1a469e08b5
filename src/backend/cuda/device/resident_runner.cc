#include "backend/cuda/device/resident_runner.h"

#include <algorithm>

#include "backend/cuda/device/gate_kind.h"

namespace pie::cuda {
namespace {

// Makes the list of phases.
class Phases {
 public:
  Phases(const ModelConfig& config, const DeviceWeights& weights, const KvShape& kv,
         const ResidentBuffers& buffers)
      : config_(config), shape_(config), weights_(weights), kv_(kv), buffers_(buffers) {}

  std::vector<ResidentPhase> Make() {
    ResidentPhase norm{.input = ResidentInput::kNormed};
    for (uint32_t i = 0; i < config_.layers; ++i) {
      const DeviceLayer& layer = weights_.layers[i];
      norm.norm = layer.attention_norm;
      AddQkv(layer, norm);
      AddAttention(i);
      AddProduct({.input = ResidentInput::kCopied,
                  .n = config_.hidden_size,
                  .k = shape_.q_size,
                  .y = buffers_.delta,
                  .copied = buffers_.attended},
                 layer.o);
      norm.delta = buffers_.delta;
      norm.bias = layer.o_bias;
      norm.post_norm = layer.attention_post_norm;
      norm.norm = layer.ffn_norm;
      AddFeedForward(layer, norm);
      norm.bias = nullptr;
      norm.post_norm = layer.ffn_post_norm;
    }
    norm.norm = weights_.output_norm;
    norm.x_out = buffers_.x;
    norm.meets = false;
    norm.n = config_.vocab_size;
    norm.k = config_.hidden_size;
    norm.y = buffers_.logits;
    AddProduct(norm, weights_.output);
    return std::move(phases_);
  }

 private:
  void AddProduct(ResidentPhase phase, const DeviceMatrix& matrix) {
    phase.w = matrix.data;
    phase.scales = matrix.scales;
    phase.kind = matrix.kind;
    phases_.push_back(phase);
  }

  // Matrices of different kinds follow one another, with one input.
  void AddQkv(const DeviceLayer& layer, ResidentPhase phase) {
    uint64_t row = 0;
    for (const DeviceMatrix& part : layer.qkv) {
      phase.n = layer.qkv.size() == 1 ? shape_.qkv_size : part.rows;
      phase.k = config_.hidden_size;
      phase.y = buffers_.qkv + row;
      phase.meets = &part == &layer.qkv.back();
      AddProduct(phase, part);
      row += phase.n;
      phase.input = ResidentInput::kSame;
    }
  }

  void AddAttention(uint32_t index) {
    const DeviceLayer& layer = weights_.layers[index];
    const bool sliding = config_.IsSliding(index);
    const uint32_t table =
        sliding && config_.rope.sliding_theta != 0 ? config_.rope.dims / 2 : 0;
    phases_.push_back({.input = ResidentInput::kAttention,
                       .layer_offset = index * kv_.layer_bytes(),
                       .qkv_bias = layer.qkv_bias,
                       .q_norm = layer.q_norm,
                       .k_norm = layer.k_norm,
                       .cosines = buffers_.cosines + table,
                       .sines = buffers_.sines + table,
                       .sinks = layer.sinks,
                       .window = sliding ? config_.sliding_window : 0});
  }

  void AddFeedForward(const DeviceLayer& layer, ResidentPhase phase) {
    phase.output = ProductOutput::kGated;
    phase.gate = GateKindOf(config_.activation);
    phase.n = 2 * shape_.ffn_stride;
    phase.k = config_.hidden_size;
    phase.y = buffers_.gated;
    AddProduct(phase, layer.gate_up);
    AddProduct({.input = ResidentInput::kCopied,
                .n = config_.hidden_size,
                .k = shape_.ffn_stride,
                .y = buffers_.delta,
                .copied = buffers_.gated},
               layer.down);
  }

  const ModelConfig& config_;
  const DeviceShape shape_;
  const DeviceWeights& weights_;
  const KvShape& kv_;
  const ResidentBuffers& buffers_;
  std::vector<ResidentPhase> phases_;
};

}  // namespace

Result<std::unique_ptr<ResidentRunner>> ResidentRunner::Make(const ModelConfig& config,
                                                             const DeviceWeights& weights,
                                                             const KvShape& kv,
                                                             const ResidentBuffers& buffers,
                                                             Stream stream) {
  if (config.moe.experts > 0 || config.qk_norm == QkNorm::kWhole) return nullptr;
  const DeviceShape shape(config);
  std::unique_ptr<ResidentRunner> runner(new ResidentRunner);
  ResidentStep& step = runner->step_;
  step = {.x = buffers.x,
          .hidden = config.hidden_size,
          .widest_input = std::max({config.hidden_size, shape.q_size, shape.ffn_stride}),
          .epsilon = config.norm_eps,
          .kv = kv,
          .qkv = buffers.qkv,
          .attended = buffers.attended,
          .heads = config.heads,
          .head_size = config.head_dim,
          .pairs = config.rope.dims / 2,
          .neighbours = config.rope.pairing == RopeConfig::Pairing::kNeighbours,
          .scale = config.attention_scale,
          .softcap = config.attention_softcap,
          .splits = ResidentSplits(config.kv_heads),
          .parts = buffers.parts,
          .part_scales = buffers.part_scales};
  if (!CanRunResident(step)) return nullptr;
  const std::vector<ResidentPhase> phases = Phases(config, weights, kv, buffers).Make();
  const uint64_t bytes = phases.size() * sizeof(ResidentPhase);
  const uint64_t counters = (2 + uint64_t{config.kv_heads}) * sizeof(uint32_t);
  auto* const list = static_cast<ResidentPhase*>(PIE_TRY(runner->memory_.Take(bytes, "phases")));
  step.counters =
      static_cast<uint32_t*>(PIE_TRY(runner->memory_.Take(counters, "counters of phases")));
  CopyIn(list, phases.data(), bytes, stream);
  Fill(step.counters, 0, counters, stream);
  Synchronize(stream);
  step.phases = list;
  step.phase_count = static_cast<uint32_t>(phases.size());
  return runner;
}

void ResidentRunner::Run(const StepHeader* step, Stream stream) {
  step_.step = step;
  RunResidentStep(step_, stream);
}

}  // namespace pie::cuda
