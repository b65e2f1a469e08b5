// Transformer: one forward pass of a model over a batch, from tokens to hidden states and logits.
// It runs the operations of the architecture's plan (layer_plan.h).
//
// A row's result depends only on its sequence: not on the rest of the batch, the threads, or the
// chunks of a prefill, because every kernel sums in one fixed order.
//
// Owned by one backend. It keeps its buffers, so only one call may run at a time. The weights and
// the pool must outlive it. A pass reads the weights once, and the pages of every member.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/cpu/attention/attention.h"
#include "backend/cpu/attention/kv_layer.h"
#include "backend/cpu/attention/rope.h"
#include "backend/cpu/layers/adapter_rows.h"
#include "backend/cpu/layers/experts.h"
#include "backend/cpu/layers/layer_plan.h"
#include "backend/cpu/layers/linear.h"
#include "backend/cpu/machine/cpu_features.h"
#include "backend/cpu/machine/thread_pool.h"
#include "backend/cpu/weights/weights.h"
#include "model/config.h"

namespace pie::cpu {

class Transformer {
 public:
  Transformer(const ModelConfig& config, const Weights& weights, CpuLevel level, ThreadPool& pool);

  // Writes the keys and values of every row into its member's pages, layer by layer, and keeps the
  // last hidden states of the rows in `read` (ascending) for Logits. The last layer computes only
  // those rows. `kv` is [layers]. Every token is in the vocabulary.
  void Run(const Batch& batch, std::span<const KvLayer> kv, std::span<const uint32_t> read);

  // Computes the logits of rows that the last Run kept: out [rows.size(), vocab].
  void Logits(std::span<const uint32_t> rows, float* out);
  // The same for the tokens of some words of a mask, 32 tokens each. The others stay as they are.
  void LogitsOfWords(std::span<const uint32_t> rows, std::span<const uint32_t> words, float* out);
  // Computes the last hidden state of a row that the last Run kept, after the norm in front of the
  // output layer: out [hidden]. Several threads may call it at a time.
  void Embedding(uint32_t row, float* out) const;

 private:
  struct Place {  // where a row's keys and values are stored
    PageId page;
    uint32_t slot;
  };

  size_t QkvStride() const;
  void Prepare(const Batch& batch, uint32_t page_tokens);
  void ExpandMasks(const Batch& batch);
  void MakeAngles(uint32_t position, uint32_t row);
  void KeepRead(const Batch& batch, uint32_t page_tokens);
  // The place of a row among those that were kept.
  uint32_t Kept(uint32_t row) const;
  // Makes hidden_ of rows that were kept.
  void ReadHidden(std::span<const uint32_t> rows);
  void Residual(const Operation& operation);
  void Project(const Operation& operation, const KvLayer& kv);
  void NormHeads(const LayerWeights& layer, float* q, float* k) const;
  void Attend(const Operation& operation, const KvLayer& kv);
  void FeedForward(const Operation& operation);
  // Calls f(row) for every row, distributed over the threads.
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
  AdapterRows adapters_;

  uint32_t rows_ = 0;
  std::vector<uint32_t> read_;            // rows of the batch that are read
  std::vector<uint32_t> logit_rows_;      // where the rows of Logits are among them
  std::vector<Place> places_;             // [rows]
  std::vector<float> cos_, sin_;          // [ropes, rows, rope dims / 2]
  std::vector<AttentionMember> members_;  // of the batch
  std::vector<uint64_t> masks_;           // the masks of all members that have one
  AlignedVector<float> x_;                // [rows, hidden]: the residual stream
  // [rows, hidden]: the output of the last operation, to be added to x_
  AlignedVector<float> delta_;
  AlignedVector<float> qkv_;  // [rows, (heads + 2 × kv_heads) × head_dim], QkvStride()
  Activations hidden_;        // [rows, hidden], after a norm
  Activations attended_;      // [rows, heads × head_dim]
  Activations gated_;         // [rows, ffn]
  std::vector<PanelRange> panels_;
};

}  // namespace pie::cpu
