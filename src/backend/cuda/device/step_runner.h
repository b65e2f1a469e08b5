// StepRunner: launches the kernels of one step on a stream, from the step's inputs to its outputs.
// It owns the activations' memory.
//
// `rows` of a launch may exceed the rows of the step. So the same launches, recorded as a graph,
// serve every step of at most that many rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "backend/cuda/device/device_weights.h"
#include "backend/cuda/device/product_runner.h"
#include "backend/cuda/device/resident_runner.h"
#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/blas.h"
#include "backend/cuda/kernels/low_rank.h"
#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/sampling.h"
#include "backend/cuda/kernels/step.h"
#include "backend/cuda/step_builder.h"
#include "base/result.h"
#include "model/adapter/adapter.h"
#include "model/config.h"

namespace pie::cuda {

class StepRunner {
 public:
  static constexpr uint32_t kLogitRows = 256;  // rows whose logits are in memory at a time

  struct Options {
    uint32_t max_rows = 0;
    uint32_t max_parts = 8192;  // partial results of attention
    int processors = 1;
    // A row's results do not depend on the rows beside it.
    bool deterministic = false;
    // For measurements: a step without one of its phases. Its results mean nothing.
    bool skip_products = false;
    bool skip_attention = false;
  };

  // `blas` may be null: then our own products do all the work.
  static Result<std::unique_ptr<StepRunner>> Make(const ModelConfig& config,
                                                  const DeviceWeights& weights,
                                                  const Options& options, Blas* blas,
                                                  Stream stream);

  // Keys and values of all layers, and the step's inputs on the device.
  void SetPages(const KvShape& kv, uint64_t pages) {
    kv_ = kv;
    in_boxes_ = DescribeLines(kv, pages, &kv_lines_);
  }
  void SetStep(const StepHeader* step) { step_ = step; }

  // From tokens to the hidden states of all rows. `chosen` holds the tokens of earlier batches.
  struct Rows {
    uint32_t count = 0;
    bool small_tiles = true;  // these three: false if the step has none of them
    bool large_tiles = false;
    bool partial_results = true;
    bool adapters = false;
    AdapterParts parts;  // the parts that the adapters change
  };
  void RunLayers(const Rows& rows, const uint32_t* chosen);
  // Prepares steps of one row by one kernel, where the model and the device allow that. Call it
  // after SetPages.
  Status PrepareResident();
  bool has_resident() const { return resident_ != nullptr; }
  // The same as RunLayers and RunLogits for a step of one row without adapters.
  void RunResident(const uint32_t* chosen);
  // Logits of reads [first_read, first_read + count), which logits() then begins with. `adapters`:
  // some change the head.
  void RunLogits(uint32_t first_read, uint32_t count, bool adapters = false);
  float* logits() const { return logits_; }
  // The residual stream of a row after the last layer, before the last norm: [hidden].
  const float* state_of(uint32_t row) const { return x_ + uint64_t{row} * config_.hidden_size; }
  uint32_t logit_stride() const { return logit_stride_; }

  // Measures which kind of product is faster for this number of rows. Call it before launches are
  // recorded.
  void Tune(uint32_t rows);

 private:
  StepRunner(const ModelConfig& config, const DeviceWeights& weights, const Options& options,
             Blas* blas, Stream stream)
      : config_(config),
        shape_(config),
        weights_(weights),
        options_(options),
        blas_(blas),
        stream_(stream),
        products_({.max_rows = options.max_rows,
                   .columns = std::max({config.hidden_size, shape_.q_size, shape_.ffn_stride}),
                   .deterministic = options.deterministic,
                   .skip = options.skip_products},
                  weights.output.data, blas, stream) {}
  Status Allocate();
  void Embed(uint32_t rows, const uint32_t* chosen);
  void Attend(uint32_t layer, const Rows& rows);
  void FeedForward(uint32_t layer, const Rows& rows);
  // Adds the adapters' part to the output of a product: targets that have the same input.
  void Adapt(const Product& product, uint32_t layer,
             std::initializer_list<LowRankTarget> targets) const {
    RunLowRank(AdaptedOf(product, layer, targets), stream_);
  }
  LowRankProduct AdaptedOf(const Product& product, uint32_t layer,
                           std::initializer_list<LowRankTarget> targets) const;
  // The same for the rows of experts, which are sorted; their inputs may be sorted too.
  void AdaptExperts(const Product& product, uint32_t layer, bool x_is_sorted,
                    std::initializer_list<LowRankTarget> targets) const;
  LowRankTarget TargetOf(AdapterTarget target, uint32_t first_column,
                         LowRankTarget::Order order) const;
  void RunExperts(uint32_t layer, const Rows& rows);
  Product QkvOf(const DeviceLayer& layer, uint32_t rows) const;
  Product OOf(const DeviceLayer& layer, uint32_t rows, bool add) const;
  Product GateUpOf(const DeviceLayer& layer, uint32_t rows) const;
  Product DownOf(const DeviceLayer& layer, uint32_t rows, bool add) const;
  Product LogitsOf(uint32_t rows) const;

  const ModelConfig& config_;
  const DeviceShape shape_;
  const DeviceWeights& weights_;
  const Options options_;
  Blas* const blas_;
  const Stream stream_;
  ProductRunner products_;
  KvShape kv_;
  MatrixMap kv_lines_;
  bool in_boxes_ = false;  // kv_lines_ describes the pages
  const StepHeader* step_ = nullptr;

  std::unique_ptr<ResidentRunner> resident_;
  DeviceMemory memory_;
  double* frequencies_ = nullptr;  // [tables, pairs]
  uint32_t rope_tables_ = 1;
  uint32_t max_rows_ = 0;
  float* x_ = nullptr;        // [rows, hidden]: the residual stream
  float* delta_ = nullptr;    // [rows, hidden]
  void* h_ = nullptr;         // [rows, hidden] bfloat16
  float* qkv_ = nullptr;      // [rows, qkv_size]
  void* q_ = nullptr;         // [rows, q_size] bfloat16
  void* attended_ = nullptr;  // the same
  void* gate_up_ = nullptr;   // [rows, 2 × ffn_stride] bfloat16; for experts as below
  void* gated_ = nullptr;     // [rows, ffn_stride] bfloat16; for experts, rows × experts used
  float* cosines_ = nullptr;
  float* sines_ = nullptr;
  float* parts_ = nullptr;
  float* part_logs_ = nullptr;
  float* logits_ = nullptr;  // [kLogitRows, logit_stride]
  uint32_t logit_stride_ = 0;
  // Experts.
  float* router_logits_ = nullptr;
  uint32_t* routed_ = nullptr;
  float* shares_ = nullptr;
  uint32_t* sorted_rows_ = nullptr;
  uint32_t* places_ = nullptr;
  ExpertTile* expert_tiles_ = nullptr;
  uint32_t* expert_tile_count_ = nullptr;
  float* down_ = nullptr;  // [rows × experts used, hidden]
};

}  // namespace pie::cuda
