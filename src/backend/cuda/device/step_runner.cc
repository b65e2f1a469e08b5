#include "backend/cuda/device/step_runner.h"

#include <algorithm>
#include <span>

#include "backend/cuda/device/gate_kind.h"
#include "base/round_up.h"

namespace pie::cuda {
namespace {

// Logits of a row to which one block adds the adapter's part.
constexpr uint32_t kStripOutputs = 4096;

// A product adds directly to the residual stream, unless another operation comes in between.
bool OAdds(const DeviceLayer& layer) {
  return layer.attention_post_norm == nullptr && layer.o_bias == nullptr;
}
bool FfnAdds(const DeviceLayer& layer) {
  return layer.ffn_post_norm == nullptr;
}

}  // namespace

Result<std::unique_ptr<StepRunner>> StepRunner::Make(const ModelConfig& config,
                                                     const DeviceWeights& weights,
                                                     const Options& options, Blas* blas,
                                                     Stream stream) {
  std::unique_ptr<StepRunner> forward(new StepRunner(config, weights, options, blas, stream));
  PIE_RETURN_IF_ERROR(forward->Allocate());
  return forward;
}

Status StepRunner::Allocate() {
  max_rows_ = RoundUp(std::max(options_.max_rows, kLogitRows), ProductRunner::kFixedRows);
  const uint64_t rows = max_rows_;
  const uint64_t hidden = config_.hidden_size;
  const auto take = [&](auto*& buffer, uint64_t bytes) -> Status {
    void* const memory = PIE_TRY(memory_.Take(bytes, "activations"));
    Fill(memory, 0, bytes, stream_);  // rows that no step has filled are finite
    buffer = static_cast<std::remove_reference_t<decltype(buffer)>>(memory);
    return {};
  };
  const RopeConfig& rope = config_.rope;
  const uint32_t pairs = rope.dims / 2;
  std::vector<double> frequencies = RopeFrequencies(rope.theta, rope.dims, rope.factors);
  if (rope.sliding_theta != 0) {
    rope_tables_ = 2;
    const std::vector<double> sliding = RopeFrequencies(rope.sliding_theta, rope.dims);
    frequencies.insert(frequencies.end(), sliding.begin(), sliding.end());
  }
  PIE_RETURN_IF_ERROR(take(frequencies_, frequencies.size() * sizeof(double)));
  CopyIn(frequencies_, frequencies.data(), frequencies.size() * sizeof(double), stream_);
  PIE_RETURN_IF_ERROR(take(cosines_, rope_tables_ * rows * pairs * 4));
  PIE_RETURN_IF_ERROR(take(sines_, rope_tables_ * rows * pairs * 4));
  PIE_RETURN_IF_ERROR(take(x_, rows * hidden * 4));
  PIE_RETURN_IF_ERROR(take(delta_, rows * hidden * 4));
  PIE_RETURN_IF_ERROR(take(h_, rows * hidden * 2));
  PIE_RETURN_IF_ERROR(take(qkv_, rows * shape_.qkv_size * 4));
  PIE_RETURN_IF_ERROR(take(q_, rows * shape_.q_size * 2));
  PIE_RETURN_IF_ERROR(take(attended_, rows * shape_.q_size * 2));
  PIE_RETURN_IF_ERROR(take(parts_, uint64_t{options_.max_parts} * shape_.q_size * 4));
  PIE_RETURN_IF_ERROR(take(part_logs_, uint64_t{options_.max_parts} * config_.heads * 4));
  logit_stride_ = RoundUp(config_.vocab_size, 8);
  PIE_RETURN_IF_ERROR(take(logits_, uint64_t{kLogitRows} * logit_stride_ * 4));
  PIE_RETURN_IF_ERROR(products_.ReserveUnpacked(LargestPacked(weights_, config_)));
  const uint32_t experts = config_.moe.experts;
  const uint64_t pairs_of = rows * std::max(1U, config_.moe.experts_used);
  PIE_RETURN_IF_ERROR(take(gated_, pairs_of * shape_.ffn_stride * 2));
  PIE_RETURN_IF_ERROR(take(gate_up_, pairs_of * 2 * shape_.ffn_stride * 2));
  products_.SetUngated(gate_up_);
  if (experts > 0) {
    PIE_RETURN_IF_ERROR(take(router_logits_, rows * experts * 4));
    PIE_RETURN_IF_ERROR(take(routed_, pairs_of * 4));
    PIE_RETURN_IF_ERROR(take(shares_, pairs_of * 4));
    PIE_RETURN_IF_ERROR(take(sorted_rows_, pairs_of * 4));
    PIE_RETURN_IF_ERROR(take(places_, pairs_of * 4));
    PIE_RETURN_IF_ERROR(
        take(expert_tiles_, (experts + pairs_of / kExpertTileRows + 1) * sizeof(ExpertTile)));
    PIE_RETURN_IF_ERROR(take(expert_tile_count_, 16));
    PIE_RETURN_IF_ERROR(take(down_, pairs_of * hidden * 4));
  }
  Synchronize(stream_);
  return {};
}

void StepRunner::Tune(uint32_t rows) {
  if (blas_ == nullptr || rows == 0) return;
  rows = options_.deterministic ? ProductRunner::kFixedRows : std::min(rows, max_rows_);
  const auto tune = [&](const Product& product, auto&& matrix_of) {
    constexpr size_t kMatrices = 4;  // together larger than the cache, except for tiny models
    std::vector<DeviceMatrix> matrices;
    for (size_t i = 0; i < weights_.layers.size() && matrices.size() < kMatrices; ++i) {
      const DeviceMatrix& matrix = matrix_of(weights_.layers[i]);
      if (matrix.kind == product.kind) matrices.push_back(matrix);
      if (matrix.data == weights_.output.data) break;
    }
    products_.Tune(product, matrices);
  };
  using Layer = const DeviceLayer&;
  using Matrix = const DeviceMatrix&;
  const DeviceLayer& first = weights_.layers[0];
  if (first.qkv.size() == 1) {
    tune(QkvOf(first, rows), [](Layer layer) -> Matrix { return layer.qkv[0]; });
  } else {
    products_.TuneParts(QkvOf(first, rows));
  }
  tune(OOf(first, rows, OAdds(first)), [](Layer layer) -> Matrix { return layer.o; });
  if (config_.moe.experts == 0) {
    tune(GateUpOf(first, rows), [](Layer layer) -> Matrix { return layer.gate_up; });
    tune(DownOf(first, rows, FfnAdds(first)), [](Layer layer) -> Matrix { return layer.down; });
  }
  if (rows <= kLogitRows) {
    tune(LogitsOf(rows), [&](Layer) -> Matrix { return weights_.output; });
  }
}

// All of q, k and v, which may be several matrices (ProductRunner::MultiplyParts).
Product StepRunner::QkvOf(const DeviceLayer& layer, uint32_t rows) const {
  return {.w = layer.qkv[0].data,
          .kind = layer.qkv[0].kind,
          .scales = layer.qkv[0].scales,
          .x = h_,
          .y = qkv_,
          .n = shape_.qkv_size,
          .k = config_.hidden_size,
          .rows = rows,
          .x_stride = config_.hidden_size,
          .y_stride = shape_.qkv_size};
}

Product StepRunner::OOf(const DeviceLayer& layer, uint32_t rows, bool add) const {
  return {.w = layer.o.data,
          .kind = layer.o.kind,
          .scales = layer.o.scales,
          .x = attended_,
          .y = add ? x_ : delta_,
          .n = config_.hidden_size,
          .k = shape_.q_size,
          .rows = rows,
          .x_stride = shape_.q_size,
          .y_stride = config_.hidden_size,
          .output = add ? ProductOutput::kAdd : ProductOutput::kFloat};
}

Product StepRunner::GateUpOf(const DeviceLayer& layer, uint32_t rows) const {
  return {.w = layer.gate_up.data,
          .kind = layer.gate_up.kind,
          .scales = layer.gate_up.scales,
          .x = h_,
          .y = gated_,
          .n = 2 * shape_.ffn_stride,
          .k = config_.hidden_size,
          .rows = rows,
          .x_stride = config_.hidden_size,
          .y_stride = shape_.ffn_stride,
          .output = ProductOutput::kGated,
          .gate = GateKindOf(config_.activation)};
}

Product StepRunner::DownOf(const DeviceLayer& layer, uint32_t rows, bool add) const {
  return {.w = layer.down.data,
          .kind = layer.down.kind,
          .scales = layer.down.scales,
          .x = gated_,
          .y = add ? x_ : delta_,
          .n = config_.hidden_size,
          .k = shape_.ffn_stride,
          .rows = rows,
          .x_stride = shape_.ffn_stride,
          .y_stride = config_.hidden_size,
          .output = add ? ProductOutput::kAdd : ProductOutput::kFloat};
}

Product StepRunner::LogitsOf(uint32_t rows) const {
  return {.w = weights_.output.data,
          .kind = weights_.output.kind,
          .scales = weights_.output.scales,
          .x = h_,
          .y = logits_,
          .n = config_.vocab_size,
          .k = config_.hidden_size,
          .rows = rows,
          .x_stride = config_.hidden_size,
          .y_stride = logit_stride_};
}

void StepRunner::Embed(uint32_t rows, const uint32_t* chosen) {
  RunEmbedding({.step = step_,
                .table = weights_.embedding.data,
                .kind = weights_.embedding.kind,
                .scales = weights_.embedding.scales,
                .chosen = chosen,
                .x = x_,
                .rows = rows,
                .hidden = config_.hidden_size,
                .vocab = config_.vocab_size,
                .scale = config_.embedding_scale,
                .frequencies = frequencies_,
                .cosines = cosines_,
                .sines = sines_,
                .pairs = config_.rope.dims / 2,
                .tables = rope_tables_,
                .attention_factor = config_.rope.attention_factor},
               stream_);
}

void StepRunner::RunLayers(const Rows& of, const uint32_t* chosen) {
  const uint32_t rows = of.count;
  const uint32_t hidden = config_.hidden_size;
  Embed(rows, chosen);
  if (of.parts.embedding) {
    LowRankProduct embedding = AdaptedOf(
        {.y = x_, .rows = rows, .x_stride = config_.vocab_size, .y_stride = hidden}, config_.layers,
        {TargetOf(AdapterTarget::kEmbedding, 0, LowRankTarget::Order::kPlain)});
    embedding.kind = LowRankRows::kTokens;
    embedding.chosen = chosen;
    embedding.vocab = config_.vocab_size;
    embedding.factor = config_.embedding_scale;
    RunLowRank(embedding, stream_);
  }
  Residual residual{.x = x_, .h = h_, .rows = rows, .hidden = hidden, .epsilon = config_.norm_eps};
  for (uint32_t i = 0; i < config_.layers; ++i) {
    const DeviceLayer& layer = weights_.layers[i];
    residual.norm = layer.attention_norm;
    RunResidual(residual, stream_);
    Attend(i, of);
    const bool o_adds = OAdds(layer);
    const Product o = OOf(layer, rows, o_adds);
    products_.Multiply(o);
    if (of.adapters) Adapt(o, i, {TargetOf(AdapterTarget::kO, 0, LowRankTarget::Order::kPlain)});
    residual.delta = o_adds ? nullptr : delta_;
    residual.bias = layer.o_bias;
    residual.post_norm = layer.attention_post_norm;
    residual.norm = layer.ffn_norm;
    RunResidual(residual, stream_);
    const bool ffn_adds = FfnAdds(layer);
    if (config_.moe.experts > 0) {
      RunExperts(i, of);
    } else {
      FeedForward(i, of);
    }
    residual.delta = ffn_adds ? nullptr : delta_;
    residual.bias = nullptr;
    residual.post_norm = layer.ffn_post_norm;
  }
  if (residual.delta != nullptr) {
    residual.norm = nullptr;
    residual.h = nullptr;
    RunResidual(residual, stream_);
  }
}

void StepRunner::Attend(uint32_t index, const Rows& of) {
  const uint32_t rows = of.count;
  const DeviceLayer& layer = weights_.layers[index];
  const bool sliding = config_.IsSliding(index);
  const uint32_t pairs = config_.rope.dims / 2;
  const size_t table = sliding && config_.rope.sliding_theta != 0 ? size_t{rows} * pairs : 0;
  KvShape kv = kv_;
  kv.layer_offset = index * kv.layer_bytes();
  const Product qkv = QkvOf(layer, rows);
  products_.MultiplyParts(layer.qkv, qkv);
  if (of.adapters) {
    const bool neighbours = config_.rope.pairing == RopeConfig::Pairing::kNeighbours;
    const auto rotated =
        neighbours ? LowRankTarget::Order::kNeighbours : LowRankTarget::Order::kHeads;
    const uint32_t kv_size = config_.kv_heads * shape_.head_stride;
    Adapt(qkv, index,
          {TargetOf(AdapterTarget::kQ, 0, rotated),
           TargetOf(AdapterTarget::kK, shape_.q_size, rotated),
           TargetOf(AdapterTarget::kV, shape_.q_size + kv_size, LowRankTarget::Order::kHeads)});
  }
  if (options_.skip_attention) return;
  RunRotateWrite({.step = step_,
                  .qkv = qkv_,
                  .bias = layer.qkv_bias,
                  .q_norm = layer.q_norm,
                  .k_norm = layer.k_norm,
                  .cosines = cosines_ + table,
                  .sines = sines_ + table,
                  .q = q_,
                  .kv = kv,
                  .rows = rows,
                  .heads = config_.heads,
                  .head_size = config_.head_dim,
                  .pairs = pairs,
                  .neighbours = config_.rope.pairing == RopeConfig::Pairing::kNeighbours,
                  .norm_whole = config_.qk_norm == QkNorm::kWhole,
                  .epsilon = config_.norm_eps},
                 stream_);
  const Attention attention{.step = step_,
                            .kv = kv,
                            .q = q_,
                            .out = attended_,
                            .heads = config_.heads,
                            .scale = config_.attention_scale,
                            .softcap = config_.attention_softcap,
                            .window = sliding ? config_.sliding_window : 0,
                            .sinks = layer.sinks,
                            .parts = parts_,
                            .part_logs = part_logs_,
                            .kv_lines = in_boxes_ ? &kv_lines_ : nullptr,
                            .fixed_order = options_.deterministic};
  if (of.small_tiles) RunSmallTiles(attention, options_.processors, stream_);
  if (of.large_tiles) RunLargeTiles(attention, options_.processors, stream_);
  if (of.partial_results) RunMergeParts(attention, rows, stream_);
}

LowRankTarget StepRunner::TargetOf(AdapterTarget target, uint32_t first_column,
                                   LowRankTarget::Order order) const {
  return {.slot = AdapterSlot(target),
          .out = AdapterShapeOf(config_).Of(target).out,
          .first_column = first_column,
          .order = order};
}

LowRankProduct StepRunner::AdaptedOf(const Product& product, uint32_t layer,
                                     std::initializer_list<LowRankTarget> targets) const {
  LowRankProduct adapted{.step = step_,
                         .x = product.x,
                         .y = product.y,
                         .rows = product.rows,
                         .x_stride = product.x_stride,
                         .y_stride = product.y_stride,
                         .to_bf16 = product.output == ProductOutput::kBf16,
                         .layer = layer,
                         .slots = AdapterShapeOf(config_).slots(0),
                         .head_size = config_.head_dim,
                         .head_stride = shape_.head_stride};
  for (const LowRankTarget& target : targets) adapted.of[adapted.targets++] = target;
  return adapted;
}

void StepRunner::AdaptExperts(const Product& product, uint32_t layer, bool x_is_sorted,
                              std::initializer_list<LowRankTarget> targets) const {
  LowRankProduct adapted = AdaptedOf(product, layer, targets);
  adapted.kind = LowRankRows::kPairs;
  adapted.routed = routed_;
  adapted.places = places_;
  adapted.used = config_.moe.experts_used;
  adapted.x_is_sorted = x_is_sorted;
  RunLowRank(adapted, stream_);
}

void StepRunner::FeedForward(uint32_t index, const Rows& rows) {
  using Order = LowRankTarget::Order;
  const DeviceLayer& layer = weights_.layers[index];
  const Product gate_up = GateUpOf(layer, rows.count);
  const Product down = DownOf(layer, rows.count, FfnAdds(layer));
  if (rows.adapters) {  // they change the input of the activation
    Product sums = gate_up;
    sums.output = ProductOutput::kBf16;
    sums.y = gate_up_;
    sums.y_stride = gate_up.n;
    products_.MultiplyUngated(gate_up, sums);
    Adapt(sums, index,
          {TargetOf(AdapterTarget::kGate, 0, Order::kGrouped),
           TargetOf(AdapterTarget::kUp, 8, Order::kGrouped)});
    RunGate(gate_up.gate, gate_up_, gate_up.y, gate_up.rows, gate_up.n / 2, stream_);
  } else {
    products_.Multiply(gate_up);
  }
  products_.Multiply(down);
  if (rows.adapters) Adapt(down, index, {TargetOf(AdapterTarget::kDown, 0, Order::kPlain)});
}

void StepRunner::RunExperts(uint32_t index, const Rows& of) {
  using Order = LowRankTarget::Order;
  const DeviceLayer& layer = weights_.layers[index];
  const uint32_t rows = of.count;
  const bool add = FfnAdds(layer);
  const uint32_t hidden = config_.hidden_size;
  const uint32_t experts = config_.moe.experts;
  const uint32_t used = config_.moe.experts_used;
  const uint32_t pairs = rows * used;
  Product router{.w = layer.router,
                 .x = h_,
                 .y = router_logits_,
                 .n = experts,
                 .k = hidden,
                 .rows = rows,
                 .x_stride = hidden,
                 .y_stride = experts};
  router.bias = layer.router_bias;
  RunProduct(router, stream_);
  RunRouting({.logits = router_logits_,
              .rows = rows,
              .step = step_,
              .experts = experts,
              .used = used,
              .renormalize = config_.moe.renormalize,
              .chosen = routed_,
              .shares = shares_,
              .sorted_row = sorted_rows_,
              .place = places_,
              .tiles = expert_tiles_,
              .tile_count = expert_tile_count_},
             stream_);
  const uint32_t most = std::min(pairs, experts + pairs / kExpertTileRows);
  Product product{.w = layer.gate_up.data,
                  .kind = layer.gate_up.kind,
                  .scales = layer.gate_up.scales,
                  .x = h_,
                  .y = gated_,
                  .n = 2 * shape_.ffn_stride,
                  .k = hidden,
                  .rows = pairs,
                  .x_stride = hidden,
                  .y_stride = shape_.ffn_stride,
                  .output = ProductOutput::kGated,
                  .gate = GateKindOf(config_.activation),
                  .bias = layer.gate_up_bias,
                  .tiles = expert_tiles_,
                  .tile_count = expert_tile_count_,
                  .max_tiles = most,
                  .x_rows = sorted_rows_};
  if (of.parts.experts) {  // they change the input of the activation
    Product sums = product;
    sums.output = ProductOutput::kBf16;
    sums.y = gate_up_;
    sums.y_stride = product.n;
    RunProduct(sums, stream_);
    AdaptExperts(sums, index, false,
                 {TargetOf(AdapterTarget::kGate, 0, Order::kGrouped),
                  TargetOf(AdapterTarget::kUp, 8, Order::kGrouped)});
    RunGate(product.gate, gate_up_, product.y, pairs, product.n / 2, stream_);
  } else {
    RunProduct(product, stream_);
  }
  SetMatrix(product, layer.down);
  product.x = gated_;
  product.y = down_;
  product.n = hidden;
  product.k = product.x_stride = shape_.ffn_stride;
  product.y_stride = hidden;
  product.output = ProductOutput::kFloat;
  product.bias = layer.down_bias;
  product.x_rows = nullptr;
  RunProduct(product, stream_);
  if (of.parts.experts) {
    AdaptExperts(product, index, true, {TargetOf(AdapterTarget::kDown, 0, Order::kPlain)});
  }
  RunCombineExperts(down_, places_, shares_, add ? x_ : delta_, add, rows, used, hidden, step_,
                    stream_);
}

void StepRunner::RunLogits(uint32_t first_read, uint32_t count, bool adapters) {
  const Product logits = LogitsOf(count);
  RunResidual({.x = x_,
               .norm = weights_.output_norm,
               .h = h_,
               .rows = count,
               .hidden = config_.hidden_size,
               .epsilon = config_.norm_eps,
               .gather = step_,
               .first_read = first_read},
              stream_);
  products_.Multiply(logits);
  if (adapters) {
    LowRankProduct head = AdaptedOf(
        logits, config_.layers, {TargetOf(AdapterTarget::kHead, 0, LowRankTarget::Order::kPlain)});
    head.kind = LowRankRows::kReads;
    head.first_read = first_read;
    head.strips = (config_.vocab_size + kStripOutputs - 1) / kStripOutputs;
    RunLowRank(head, stream_);
  }
  if (config_.final_softcap != 0) {
    RunSoftCap(logits_, uint64_t{count} * logit_stride_, config_.final_softcap, stream_);
  }
}

Status StepRunner::PrepareResident() {
  if (options_.deterministic || options_.skip_products || options_.skip_attention) return {};
  resident_ = PIE_TRY(ResidentRunner::Make(
      config_, weights_, kv_, {.x = x_, .logits = logits_, .cosines = cosines_, .sines = sines_},
      stream_));
  return {};
}

void StepRunner::RunResident(const uint32_t* chosen) {
  Embed(1, chosen);
  resident_->Run(step_, stream_);
  if (config_.final_softcap != 0) {
    RunSoftCap(logits_, logit_stride_, config_.final_softcap, stream_);
  }
}

}  // namespace pie::cuda
