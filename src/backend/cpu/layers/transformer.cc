#include "backend/cpu/layers/transformer.h"

#include <algorithm>

#include "backend/cpu/layers/activation.h"
#include "backend/cpu/layers/norm.h"
#include "base/brle.h"
#include "base/result.h"

namespace pie::cpu {
namespace {

// Rows per task. With many rows, a task has 16, so that two threads never write to one cache line
// (quantize.h).
constexpr uint32_t kFewRowsPerPart = 4;
constexpr uint32_t kRowsPerPart = 16;

template <class Buffer>
void Grow(Buffer& buffer, size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, const Weights& weights, CpuLevel level,
                         ThreadPool& pool)
    : config_(config),
      weights_(weights),
      level_(level),
      pool_(pool),
      plan_(MakePlan(config, weights)),
      attention_(level, pool),
      experts_(config, level, pool),
      adapters_(level, pool) {
  const RopeConfig& rope = config.rope;
  ropes_.emplace_back(rope.pairing, rope.dims, rope.theta, rope.factors);
  if (rope.sliding_theta != 0) ropes_.emplace_back(rope.pairing, rope.dims, rope.sliding_theta);
}

template <class F>
void Transformer::ForRows(uint32_t rows, F&& f) {
  const bool many = rows >= pool_.threads() * kRowsPerPart * 4;
  const uint32_t size = many ? kRowsPerPart : kFewRowsPerPart;
  pool_.ParallelFor((rows + size - 1) / size, [&](uint32_t part) {
    const uint32_t end = std::min((part + 1) * size, rows);
    for (uint32_t row = part * size; row < end; ++row) f(row);
  });
}

void Transformer::Run(const Batch& batch, std::span<const KvLayer> kv,
                      std::span<const uint32_t> read) {
  PIE_CHECK(kv.size() == config_.layers && batch.positions.size() == batch.tokens.size());
  rows_ = static_cast<uint32_t>(batch.tokens.size());
  read_.assign(read.begin(), read.end());
  if (rows_ == 0) return;
  Prepare(batch, kv[0].page_tokens);
  for (const Operation& operation : plan_) {
    switch (operation.kind) {
      case Operation::Kind::kResidual:
        Residual(operation);
        break;
      case Operation::Kind::kProject:
        Project(operation, kv[operation.layer]);
        if (operation.layer + 1 == config_.layers) KeepRead(batch, kv[0].page_tokens);
        if (rows_ == 0) return;
        break;
      case Operation::Kind::kAttend:
        Attend(operation, kv[operation.layer]);
        break;
      case Operation::Kind::kFeedForward:
        FeedForward(operation);
        break;
      case Operation::Kind::kExperts:
        experts_.Run(operation.layer, weights_.layers[operation.layer], hidden_,
                     adapters_.any() ? &adapters_ : nullptr, delta_.data());
        break;
    }
  }
}

void Transformer::MakeAngles(uint32_t position, uint32_t row) {
  const size_t pairs = config_.rope.dims / 2;
  for (size_t i = 0; i < ropes_.size(); ++i) {
    const std::span cos(&cos_[(i * rows_ + row) * pairs], pairs);
    const std::span sin(&sin_[(i * rows_ + row) * pairs], pairs);
    ropes_[i].Angles(position, cos, sin);
    if (i == 0 && config_.rope.attention_factor != 1) {
      for (float& value : cos) value *= config_.rope.attention_factor;
      for (float& value : sin) value *= config_.rope.attention_factor;
    }
  }
}

size_t Transformer::QkvStride() const {
  return RowStride(size_t{config_.heads + 2 * config_.kv_heads} * config_.head_dim);
}

void Transformer::Prepare(const Batch& batch, uint32_t page_tokens) {
  const size_t hidden = config_.hidden_size;
  const size_t angles = ropes_.size() * rows_ * (config_.rope.dims / 2);
  const size_t q_size = size_t{config_.heads} * config_.head_dim;
  Grow(x_, rows_ * hidden);
  Grow(delta_, rows_ * hidden);
  Grow(qkv_, rows_ * QkvStride());
  Grow(cos_, angles);
  Grow(sin_, angles);
  attended_.Resize(level_, rows_, static_cast<uint32_t>(q_size), false);
  adapters_.Prepare(batch);

  ForRows(rows_, [&](uint32_t row) {
    const uint32_t token = batch.tokens[row];
    const std::span x(&x_[row * hidden], hidden);
    PIE_CHECK(token < config_.vocab_size);
    weights_.embedding.UnpackRow(token, x);
    if (adapters_.any()) adapters_.AddEmbedding(row, token, x);
    if (config_.embedding_scale != 1) {
      for (float& value : x) value *= config_.embedding_scale;
    }
    MakeAngles(batch.positions[row], row);
  });

  places_.resize(rows_);
  members_.clear();
  for (const Batch::Member& member : batch.members) {
    PIE_CHECK(member.first_row + member.rows <= rows_);
    const auto pages = std::span(batch.pages).subspan(member.first_page, member.pages);
    PIE_CHECK(uint64_t{member.kv_tokens} + member.rows <= pages.size() * uint64_t{page_tokens});
    for (uint32_t i = 0; i < member.rows; ++i) {
      const uint32_t slot = member.kv_tokens + i;
      places_[member.first_row + i] = {pages[slot / page_tokens], slot % page_tokens};
    }
    members_.push_back({.q = qkv_.data() + member.first_row * QkvStride(),
                        .out = attended_.Row(member.first_row),
                        .rows = member.rows,
                        .kv_tokens = member.kv_tokens,
                        .pages = pages});
  }
  attention_.Share(members_, page_tokens, config_.heads / config_.kv_heads);
  ExpandMasks(batch);
}

// Expands the run lengths of masks to bits. A row without a mask is causal. Attention never looks
// past a row's own key, so masks need not be causal themselves.
void Transformer::ExpandMasks(const Batch& batch) {
  size_t words = 0;
  for (size_t m = 0; m < members_.size(); ++m) {
    if (batch.members[m].attention == nullptr) continue;
    members_[m].mask_words = (members_[m].kv_tokens + members_[m].rows + 63) / 64;
    words += members_[m].mask_words * members_[m].rows;
  }
  masks_.assign(words, 0);
  uint64_t* bits = masks_.data();
  for (size_t m = 0; m < members_.size(); ++m) {
    const Batch::Member& member = batch.members[m];
    if (member.attention == nullptr) continue;
    members_[m].mask = bits;
    for (uint32_t row = 0; row < member.rows; ++row, bits += members_[m].mask_words) {
      const size_t at = size_t{member.pass_row} + row;
      const uint32_t keys = member.kv_tokens + row + 1;
      const auto set = [&](uint32_t begin, uint32_t end) {
        while (begin < end) {
          const uint32_t stop = std::min(end, begin / 64 * 64 + 64);
          bits[begin / 64] |= ~uint64_t{0} >> (64 - (stop - begin)) << (begin % 64);
          begin = stop;
        }
      };
      if (at < member.attention->size()) {
        ForEachTrueRun((*member.attention)[at], keys, set);
      } else {
        set(0, keys);
      }
    }
  }
}

// Once the last layer has written its keys and values, rows that no sampler reads are dropped. The
// remaining rows are moved together, and each contiguous run of them becomes a member for
// attention, with the keys before it counted as kv_tokens.
void Transformer::KeepRead(const Batch& batch, uint32_t page_tokens) {
  if (read_.size() == rows_) return;
  const size_t hidden = config_.hidden_size;
  std::vector<AttentionMember> runs;
  for (size_t m = 0; m < members_.size(); ++m) {
    const uint32_t first_row = batch.members[m].first_row;
    auto at = std::ranges::lower_bound(read_, first_row);
    const auto end = std::ranges::lower_bound(read_, first_row + members_[m].rows);
    while (at != end) {
      const uint32_t skipped = *at - first_row;
      AttentionMember run = members_[m];
      run.q += skipped * QkvStride();
      run.out = attended_.Row(static_cast<uint32_t>(at - read_.begin()));
      run.kv_tokens += skipped;
      if (run.mask != nullptr) run.mask += skipped * run.mask_words;
      run.rows = 1;
      for (++at; at != end && *at == at[-1] + 1; ++at) ++run.rows;
      runs.push_back(run);
    }
  }
  members_ = std::move(runs);
  attention_.Share(members_, page_tokens, config_.heads / config_.kv_heads);
  for (size_t i = 0; i < read_.size(); ++i) {
    PIE_CHECK(read_[i] < rows_);
    if (read_[i] != i) std::copy_n(&x_[read_[i] * hidden], hidden, &x_[i * hidden]);
  }
  adapters_.Keep(read_);
  rows_ = static_cast<uint32_t>(read_.size());
}

void Transformer::Residual(const Operation& operation) {
  const uint32_t hidden = config_.hidden_size;
  const float eps = config_.norm_eps;
  if (operation.has_hidden) hidden_.Resize(level_, rows_, hidden, operation.quantized);
  ForRows(rows_, [&](uint32_t row) {
    float* const x = &x_[size_t{row} * hidden];
    float* const delta = operation.has_delta ? &delta_[size_t{row} * hidden] : nullptr;
    if (row + 1 < rows_) PrefetchForWrite(x + hidden, hidden * sizeof(float));
    if (operation.bias != nullptr) AddBias({operation.bias, hidden}, delta);
    if (operation.post_norm != nullptr) {
      RmsNorm(level_, delta, operation.post_norm, hidden, eps, delta);
    }
    if (operation.norm != nullptr) {
      AddRmsNorm(level_, x, delta, operation.norm, hidden, eps, hidden_.Row(row));
    } else {
      if (delta != nullptr) AddBias({delta, hidden}, x);
      if (operation.has_hidden) std::copy_n(x, hidden, hidden_.Row(row));
    }
    if (operation.has_hidden) hidden_.Seal(row);
  });
}

void Transformer::Project(const Operation& operation, const KvLayer& kv) {
  const LayerWeights& layer = weights_.layers[operation.layer];
  const size_t q_size = layer.q.w.rows();
  const size_t kv_size = layer.k.w.rows();
  const size_t stride = QkvStride();
  float* const q = qkv_.data();
  MatMulAll(level_, pool_, hidden_,
            {{layer.q.w, q, stride},
             {layer.k.w, q + q_size, stride},
             {layer.v.w, q + q_size + kv_size, stride}});
  if (adapters_.any()) {
    adapters_.Add(operation.layer, hidden_,
                  {{AdapterTarget::kQ, q, stride},
                   {AdapterTarget::kK, q + q_size, stride},
                   {AdapterTarget::kV, q + q_size + kv_size, stride}});
  }
  const auto table = static_cast<size_t>(operation.rope);
  const size_t pairs = config_.rope.dims / 2;
  ForRows(rows_, [&](uint32_t row) {
    float* const heads = q + row * stride;
    float* const keys = heads + q_size;
    float* const values = keys + kv_size;
    AddBias(layer.q.bias, heads);
    AddBias(layer.k.bias, keys);
    AddBias(layer.v.bias, values);
    NormHeads(layer, heads, keys);
    // Queries and keys are adjacent, so one call rotates both.
    const size_t angles = (table * rows_ + row) * pairs;
    ropes_[table].Apply(level_, &cos_[angles], &sin_[angles], heads,
                        config_.heads + config_.kv_heads, config_.head_dim);
    WriteKv(level_, kv, places_[row].page, places_[row].slot, keys, values);
  });
}

// Normalises the queries and keys of one row.
void Transformer::NormHeads(const LayerWeights& layer, float* q, float* k) const {
  const auto norm = [&](float* heads, const std::vector<float>& weights, uint32_t size) {
    // numbers that are normalised together: one head, or all heads
    const auto step = static_cast<uint32_t>(weights.size());
    for (uint32_t at = 0; at < size; at += step) {
      RmsNorm(level_, heads + at, weights.data(), step, config_.norm_eps, heads + at);
    }
  };
  if (config_.qk_norm == QkNorm::kNone) return;
  norm(q, layer.q_norm, layer.q.w.rows());
  norm(k, layer.k_norm, layer.k.w.rows());
}

void Transformer::Attend(const Operation& operation, const KvLayer& kv) {
  const LayerWeights& layer = weights_.layers[operation.layer];
  const size_t q_size = layer.q.w.rows();
  attention_.Run(kv,
                 {.heads = config_.heads,
                  .scale = config_.attention_scale,
                  .q_stride = QkvStride(),
                  .out_stride = q_size,
                  .window = operation.window,
                  .softcap = config_.attention_softcap,
                  .sinks = layer.sinks.empty() ? nullptr : layer.sinks.data(),
                  // With quantised weights, activations are rounded to 8 bits anyway.
                  .bf16 = layer.q.w.quantized() && layer.o.w.quantized()},
                 members_);
  attended_.Resize(level_, rows_, static_cast<uint32_t>(q_size), layer.o.w.quantized());
  ForRows(rows_, [&](uint32_t row) { attended_.Seal(row); });
  MatMulAll(level_, pool_, attended_, {{layer.o.w, delta_.data(), config_.hidden_size}});
  if (adapters_.any()) {
    adapters_.Add(operation.layer, attended_,
                  {{AdapterTarget::kO, delta_.data(), config_.hidden_size}});
  }
}

void Transformer::FeedForward(const Operation& operation) {
  const LayerWeights& layer = weights_.layers[operation.layer];
  const PackedMatrix& down = layer.ffn.down.w;
  if (adapters_.any()) adapters_.BeginGated(operation.layer, hidden_);
  gated_.Resize(level_, rows_, config_.ffn_size, down.quantized());
  MatMulGated(level_, pool_, hidden_, layer.ffn, config_.activation, gated_,
              adapters_.any() ? &adapters_ : nullptr);
  ForRows(rows_, [&](uint32_t row) { gated_.Seal(row); });
  MatMulAll(level_, pool_, gated_, {{down, delta_.data(), config_.hidden_size}});
  if (adapters_.any()) {
    adapters_.Add(operation.layer, gated_,
                  {{AdapterTarget::kDown, delta_.data(), config_.hidden_size}});
  }
}

uint32_t Transformer::Kept(uint32_t row) const {
  const auto kept = std::ranges::lower_bound(read_, row);
  PIE_CHECK(kept != read_.end() && *kept == row);
  return static_cast<uint32_t>(kept - read_.begin());
}

void Transformer::Embedding(uint32_t row, float* out) const {
  const float* const x = &x_[size_t{Kept(row)} * config_.hidden_size];
  RmsNorm(level_, x, weights_.output_norm.data(), config_.hidden_size, config_.norm_eps, out);
}

void Transformer::ReadHidden(std::span<const uint32_t> rows) {
  const auto count = static_cast<uint32_t>(rows.size());
  hidden_.Resize(level_, count, config_.hidden_size, weights_.head().quantized());
  ForRows(count, [&](uint32_t i) {
    Embedding(rows[i], hidden_.Row(i));
    hidden_.Seal(i);
  });
}

void Transformer::Logits(std::span<const uint32_t> rows, float* out) {
  const auto count = static_cast<uint32_t>(rows.size());
  const PackedMatrix& head = weights_.head();
  ReadHidden(rows);
  MatMulAll(level_, pool_, hidden_, {{head, out, config_.vocab_size}});
  if (adapters_.any()) {
    logit_rows_.resize(count);
    for (uint32_t i = 0; i < count; ++i) logit_rows_[i] = Kept(rows[i]);
    const ExpertRows all{0, 0, count};
    adapters_.Gather(logit_rows_, {&all, 1});
    adapters_.AddGathered(config_.layers, hidden_,
                          {{AdapterTarget::kHead, out, config_.vocab_size}});
  }
  if (config_.final_softcap == 0) return;
  pool_.ParallelFor(count, [&](uint32_t i) {
    SoftCap(level_, config_.final_softcap,
            {out + size_t{i} * config_.vocab_size, config_.vocab_size});
  });
}

void Transformer::LogitsOfWords(std::span<const uint32_t> rows, std::span<const uint32_t> words,
                                float* out) {
  constexpr uint32_t kWordTokens = 32;
  static_assert(kWordTokens == 2 * kPanelRows);
  const uint32_t vocab = config_.vocab_size;
  ReadHidden(rows);
  panels_.clear();
  for (const uint32_t word : words) {
    if (!panels_.empty() && panels_.back().end == 2 * word) {
      panels_.back().end += 2;
    } else {
      panels_.push_back({2 * word, 2 * word + 2});
    }
  }
  MatMulPanels(level_, pool_, hidden_, {weights_.head(), out, vocab}, panels_);
  if (config_.final_softcap == 0) return;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    for (const uint32_t word : words) {
      const uint32_t first = word * kWordTokens;
      SoftCap(level_, config_.final_softcap,
              {out + size_t{i} * vocab + first, std::min(kWordTokens, vocab - first)});
    }
  }
}

}  // namespace pie::cpu
