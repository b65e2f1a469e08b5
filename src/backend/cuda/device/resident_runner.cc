#include "backend/cuda/device/resident_runner.h"

#include <algorithm>

#include "backend/cuda/device/gate_kind.h"

namespace pie::cuda {
namespace {

// The places where phases send their results: one set for layers of even number and one for the
// others.
struct Mailboxes {
  Mail* qkv;
  Mail* parts;
  Mail* part_scales;
  Mail* attended;
  Mail* after_attention;  // [hidden]
  Mail* gated;
  Mail* after_ffn;  // [hidden]

  // Takes them from `memory`, if that is not null. Returns how many letters they have.
  static uint64_t Take(const ModelConfig& config, uint32_t splits, Mail* memory, Mailboxes& boxes) {
    const DeviceShape shape(config);
    uint64_t at = 0;
    const auto take = [&](Mail*& box, uint64_t letters) {
      box = memory + at;
      at += (letters + 15) / 16 * 16;
    };
    take(boxes.qkv, shape.qkv_size);
    take(boxes.parts, uint64_t{splits} * shape.q_size);
    take(boxes.part_scales, uint64_t{splits} * config.heads * 2);
    take(boxes.attended, shape.q_size / 2);
    take(boxes.after_attention, config.hidden_size);
    take(boxes.gated, shape.ffn_stride / 2);
    take(boxes.after_ffn, config.hidden_size);
    return at;
  }
};

// Makes the list of phases.
class Phases {
 public:
  Phases(const ModelConfig& config, const DeviceWeights& weights, const KvShape& kv,
         const ResidentBuffers& buffers, const Mailboxes (&boxes)[2])
      : config_(config),
        shape_(config),
        weights_(weights),
        kv_(kv),
        buffers_(buffers),
        boxes_(boxes) {}

  std::vector<ResidentPhase> Make() {
    ResidentPhase norm{.input = ResidentInput::kNormed, .from = 1};
    for (uint32_t i = 0; i < config_.layers; ++i) {
      const DeviceLayer& layer = weights_.layers[i];
      const Mailboxes& boxes = boxes_[i % 2];
      norm.norm = layer.attention_norm;
      AddQkv(layer, norm, boxes);
      AddAttention(i, boxes);
      AddProduct({.input = ResidentInput::kCopied,
                  .n = config_.hidden_size,
                  .k = shape_.q_size,
                  .y = boxes.after_attention,
                  .read = boxes.attended,
                  .from = 1},
                 layer.o);
      norm.read = boxes.after_attention;
      norm.bias = layer.o_bias;
      norm.post_norm = layer.attention_post_norm;
      norm.norm = layer.ffn_norm;
      AddFeedForward(layer, norm, boxes);
      norm.read = boxes.after_ffn;
      norm.bias = nullptr;
      norm.post_norm = layer.ffn_post_norm;
    }
    norm.norm = weights_.output_norm;
    norm.x_out = buffers_.x;
    norm.n = config_.vocab_size;
    norm.k = config_.hidden_size;
    norm.last = buffers_.logits;
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
  void AddQkv(const DeviceLayer& layer, ResidentPhase phase, const Mailboxes& boxes) {
    uint64_t row = 0;
    phase.begins_layer = true;
    for (const DeviceMatrix& part : layer.qkv) {
      phase.n = layer.qkv.size() == 1 ? shape_.qkv_size : part.rows;
      phase.k = config_.hidden_size;
      phase.y = boxes.qkv + row;
      AddProduct(phase, part);
      row += phase.n;
      ++phase.after;
      phase.input = ResidentInput::kSame;
      phase.begins_layer = false;
    }
  }

  void AddAttention(uint32_t index, const Mailboxes& boxes) {
    const DeviceLayer& layer = weights_.layers[index];
    const bool sliding = config_.IsSliding(index);
    phases_.push_back({.input = ResidentInput::kAttention,
                       .read = boxes.qkv,
                       .from = static_cast<uint32_t>(layer.qkv.size()),
                       .parts = boxes.parts,
                       .part_scales = boxes.part_scales,
                       .attended = boxes.attended,
                       .layer_offset = index * kv_.layer_bytes(),
                       .qkv_bias = layer.qkv_bias,
                       .q_norm = layer.q_norm,
                       .k_norm = layer.k_norm,
                       .sinks = layer.sinks,
                       .window = sliding ? config_.sliding_window : 0,
                       .table = sliding && config_.rope.sliding_theta != 0 ? 1U : 0U});
  }

  void AddFeedForward(const DeviceLayer& layer, ResidentPhase phase, const Mailboxes& boxes) {
    phase.output = ProductOutput::kGated;
    phase.gate = GateKindOf(config_.activation);
    phase.n = 2 * shape_.ffn_stride;
    phase.k = config_.hidden_size;
    phase.y = boxes.gated;
    AddProduct(phase, layer.gate_up);
    AddProduct({.input = ResidentInput::kCopied,
                .n = config_.hidden_size,
                .k = shape_.ffn_stride,
                .y = boxes.after_ffn,
                .read = boxes.gated,
                .from = 1},
               layer.down);
  }

  const ModelConfig& config_;
  const DeviceShape shape_;
  const DeviceWeights& weights_;
  const KvShape& kv_;
  const ResidentBuffers& buffers_;
  const Mailboxes (&boxes_)[2];
  std::vector<ResidentPhase> phases_;
};

ResidentWeights WeightsOf(const std::vector<ResidentPhase>& phases) {
  ResidentWeights weights = ResidentWeights::kBf16;
  for (const ResidentPhase& phase : phases) {
    if (phase.kind == WeightKind::kBf16) continue;  // also of attention
    if (phase.kind != WeightKind::kFp8) return ResidentWeights::kAny;
    weights = ResidentWeights::kFp8;
  }
  return weights;
}

bool PhasesArePlain(const ResidentStep& step, const std::vector<ResidentPhase>& phases) {
  return step.kv.head_stride <= 128 && step.softcap == 0 && !step.neighbours &&
         std::ranges::all_of(phases, [](const ResidentPhase& phase) {
           return phase.bias == nullptr && phase.post_norm == nullptr &&
                  phase.qkv_bias == nullptr && phase.sinks == nullptr;
         });
}

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
          .heads = config.heads,
          .head_size = config.head_dim,
          .cosines = buffers.cosines,
          .sines = buffers.sines,
          .pairs = config.rope.dims / 2,
          .tables = config.rope.sliding_theta != 0 ? 2U : 1U,
          .neighbours = config.rope.pairing == RopeConfig::Pairing::kNeighbours,
          .scale = config.attention_scale,
          .softcap = config.attention_softcap,
          .splits = ResidentSplits(config.kv_heads)};
  if (!CanRunResident(step)) return nullptr;
  constexpr uint64_t kCounterBytes = 4 * sizeof(uint32_t);
  Mailboxes boxes[2];
  const uint64_t letters = Mailboxes::Take(config, step.splits, nullptr, boxes[0]);
  auto* const mail =
      static_cast<Mail*>(PIE_TRY(runner->memory_.Take(2 * letters * sizeof(Mail), "mail")));
  Mailboxes::Take(config, step.splits, mail, boxes[0]);
  Mailboxes::Take(config, step.splits, mail + letters, boxes[1]);
  const std::vector<ResidentPhase> phases = Phases(config, weights, kv, buffers, boxes).Make();
  const uint64_t bytes = phases.size() * sizeof(ResidentPhase);
  auto* const list = static_cast<ResidentPhase*>(PIE_TRY(runner->memory_.Take(bytes, "phases")));
  step.counters = static_cast<uint32_t*>(PIE_TRY(runner->memory_.Take(kCounterBytes, "counters")));
  Fill(mail, 0, 2 * letters * sizeof(Mail), stream);
  Fill(step.counters, 0, kCounterBytes, stream);
  CopyIn(list, phases.data(), bytes, stream);
  Synchronize(stream);
  step.weights = WeightsOf(phases);
  step.plain = PhasesArePlain(step, phases);
  step.phases = list;
  step.phase_count = static_cast<uint32_t>(phases.size());
  return runner;
}

void ResidentRunner::Run(const StepHeader* step, Stream stream) {
  step_.step = step;
  RunResidentStep(step_, stream);
}

}  // namespace pie::cuda
