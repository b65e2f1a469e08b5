// Transformer: one step of a model over a batch, from tokens to hidden states and logits: runs the
// list of operations that the architecture is (layer_plan.h).
//
// A row's result depends only on its sequence: neither on the rest of the batch, nor on threads
// or on how a prefill was chunked, because every kernel sums in one order.
//
// Owner: one backend; it keeps its buffers, so one call at a time. Weights and pool outlive it.
// Cost of a step: one pass over the weights, and over the pages of every member.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/cpu/attention/attention.h"
#include "backend/cpu/attention/kv_layer.h"
#include "backend/cpu/attention/rope.h"
#include "backend/cpu/layers/experts.h"
#include "backend/cpu/layers/layer_plan.h"
#include "backend/cpu/machine/cpu_features.h"
#include "backend/cpu/machine/thread_pool.h"
#include "backend/cpu/matmul/linear.h"
#include "backend/cpu/weights/weights.h"
#include "model/config.h"

namespace pie::cpu {

class Transformer {
 public:
  Transformer(const ModelConfig& config, const Weights& weights, CpuLevel level, ThreadPool& pool);

  // Writes keys and values of every row into its member's pages, layer by layer, and keeps the last
  // hidden states of the rows in `read` (ascending) for Logits: what the last layer would make of
  // the others is not computed. `kv` is [layers]. Tokens beyond the vocabulary count as 0.
  void Run(const Batch& batch, std::span<const KvLayer> kv, std::span<const uint32_t> read);

  // Rows that the last Run kept → out [rows.size(), vocab].
  void Logits(std::span<const uint32_t> rows, float* out);

 private:
  struct Place {  // of a row's keys and values
    PageId page;
    uint32_t slot;
  };

  size_t QkvStride() const;
  void Prepare(const Batch& batch, uint32_t page_tokens);
  void ExpandMasks(const Batch& batch);
  void MakeAngles(uint32_t position, uint32_t row);
  void KeepRead(const Batch& batch, uint32_t page_tokens);
  void Residual(const Operation& operation);
  void Project(const Operation& operation, const KvLayer& kv);
  void NormHeads(const LayerWeights& layer, float* q, float* k) const;
  void Attend(const Operation& operation, const KvLayer& kv);
  void FeedForward(const LayerWeights& layer);
  // f(row) for every row, spread over the threads.
  template <class F>
  void ForRows(uint32_t rows, F&& f);

  const ModelConfig& config_;
  const Weights& weights_;
  const CpuLevel level_;
  ThreadPool& pool_;
  const std::vector<Operation> plan_;
  std::vector<RopeTable> ropes_;  // by RopeTableId
  Attention attention_;
  Experts experts_;

  uint32_t rows_ = 0;
  std::vector<uint32_t> read_;            // rows of the batch that are read
  std::vector<Place> places_;             // [rows]
  std::vector<float> cos_, sin_;          // [ropes, rows, rope dims / 2]
  std::vector<AttentionMember> members_;  // of the batch
  std::vector<uint64_t> masks_;           // of all members that have one
  AlignedVector<float> x_;                // [rows, hidden]: the residual stream
  AlignedVector<float> delta_;            // [rows, hidden]: what the last operation adds to it
  AlignedVector<float> qkv_;              // [rows, (heads + 2 × kv_heads) × head_dim], QkvStride()
  Activations hidden_;                    // [rows, hidden], after a norm
  Activations attended_;                  // [rows, heads × head_dim]
  Activations gated_;                     // [rows, ffn]
};

}  // namespace pie::cpu
