#include "backend/cpu/transformer.h"

#include <algorithm>

#include "backend/cpu/activation.h"
#include "backend/cpu/norm.h"
#include "base/brle.h"
#include "base/result.h"

namespace pie::cpu {
namespace {

constexpr uint32_t kRowsAPart = 4;

template <class T>
void Grow(std::vector<T>& buffer, size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

RopeStyle StyleOf(RopeConfig::Pairing pairing) {
  return pairing == RopeConfig::Pairing::kHalves ? RopeStyle::kNeox : RopeStyle::kInterleaved;
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, const Weights& weights, CpuLevel level,
                         ThreadPool& pool)
    : config_(config),
      weights_(weights),
      level_(level),
      pool_(pool),
      rope_(StyleOf(config.rope.pairing), config.rope.dims, config.rope.theta, config.rope.factors),
      attention_(level, pool) {}

template <class F>
void Transformer::ForRows(uint32_t rows, F&& f) {
  pool_.ParallelFor((rows + kRowsAPart - 1) / kRowsAPart, [&](uint32_t part) {
    const uint32_t end = std::min((part + 1) * kRowsAPart, rows);
    for (uint32_t row = part * kRowsAPart; row < end; ++row) f(row);
  });
}

void Transformer::Run(const Batch& batch, std::span<const KvLayer> kv) {
  PIE_CHECK(kv.size() == config_.layers && batch.positions.size() == batch.tokens.size());
  rows_ = static_cast<uint32_t>(batch.tokens.size());
  if (rows_ == 0) return;
  Prepare(batch, kv[0].page_tokens);
  for (uint32_t i = 0; i < config_.layers; ++i) {
    Attend(weights_.layers[i], kv[i], i == 0);
    FeedForward(weights_.layers[i]);
  }
  const size_t hidden = config_.hidden_size;
  ForRows(rows_, [&](uint32_t row) {
    for (size_t i = row * hidden; i < (row + 1) * hidden; ++i) x_[i] += delta_[i];
  });
}

void Transformer::Prepare(const Batch& batch, uint32_t page_tokens) {
  const size_t hidden = config_.hidden_size;
  const size_t pairs = rope_.dims() / 2;
  const size_t q_size = size_t{config_.heads} * config_.head_dim;
  const size_t qkv_size = q_size + 2 * size_t{config_.kv_heads} * config_.head_dim;
  Grow(x_, rows_ * hidden);
  Grow(delta_, rows_ * hidden);
  Grow(qkv_, rows_ * qkv_size);
  Grow(gate_up_, rows_ * size_t{config_.ffn_size} * 2);
  Grow(cos_, rows_ * pairs);
  Grow(sin_, rows_ * pairs);
  attended_.Resize(rows_, static_cast<uint32_t>(q_size), false);

  ForRows(rows_, [&](uint32_t row) {
    const uint32_t token = batch.tokens[row];
    const std::span x(&x_[row * hidden], hidden);
    weights_.embedding.UnpackRow(token < config_.vocab_size ? token : 0, x);
    if (config_.embedding_scale != 1) {
      for (float& value : x) value *= config_.embedding_scale;
    }
    const std::span cos(&cos_[row * pairs], pairs);
    const std::span sin(&sin_[row * pairs], pairs);
    rope_.Angles(batch.positions[row], cos, sin);
    if (config_.rope.attention_factor != 1) {
      for (float& value : cos) value *= config_.rope.attention_factor;
      for (float& value : sin) value *= config_.rope.attention_factor;
    }
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
    members_.push_back({.q = qkv_.data() + member.first_row * qkv_size,
                        .out = attended_.Row(member.first_row),
                        .rows = member.rows,
                        .kv_tokens = member.kv_tokens,
                        .pages = pages});
  }
  ExpandMasks(batch);
}

// A mask's row that is not there is causal, as the others are by themselves: attention never looks
// past a row's own key.
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
      const size_t at = size_t{member.attention_row} + row;
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

void Transformer::Attend(const LayerWeights& layer, const KvLayer& kv, bool first) {
  const uint32_t hidden = config_.hidden_size;
  const size_t q_size = layer.q.rows();
  const size_t kv_size = layer.k.rows();
  const size_t stride = q_size + 2 * kv_size;
  hidden_.Resize(rows_, hidden, layer.q.quantized() || layer.k.quantized() || layer.v.quantized());
  ForRows(rows_, [&](uint32_t row) {
    float* const x = &x_[size_t{row} * hidden];
    float* const out = hidden_.Row(row);
    const float* const norm = layer.attention_norm.data();
    if (first) {
      RmsNorm(level_, x, norm, hidden, config_.norm_eps, out);
    } else {
      AddRmsNorm(level_, x, &delta_[size_t{row} * hidden], norm, hidden, config_.norm_eps, out);
    }
    hidden_.Seal(level_, row);
  });
  float* const q = qkv_.data();
  MatMulAll(level_, pool_, hidden_,
            {{layer.q, q, stride},
             {layer.k, q + q_size, stride},
             {layer.v, q + q_size + kv_size, stride}});
  const size_t pairs = rope_.dims() / 2;
  ForRows(rows_, [&](uint32_t row) {
    float* const heads = q + row * stride;
    // Queries and keys lie side by side.
    rope_.Apply(level_, &cos_[row * pairs], &sin_[row * pairs], heads,
                config_.heads + config_.kv_heads, config_.head_dim);
    WriteKv(level_, kv, places_[row].page, places_[row].slot, heads + q_size,
            heads + q_size + kv_size);
  });
  attention_.Run(kv,
                 {.heads = config_.heads,
                  .scale = config_.attention_scale,
                  .q_stride = stride,
                  .out_stride = q_size},
                 members_);
  attended_.Resize(rows_, static_cast<uint32_t>(q_size), layer.o.quantized());
  ForRows(rows_, [&](uint32_t row) { attended_.Seal(level_, row); });
  MatMulAll(level_, pool_, attended_, {{layer.o, delta_.data(), hidden}});
}

void Transformer::FeedForward(const LayerWeights& layer) {
  const uint32_t hidden = config_.hidden_size;
  const uint32_t ffn = config_.ffn_size;
  hidden_.Resize(rows_, hidden, layer.gate.quantized() || layer.up.quantized());
  ForRows(rows_, [&](uint32_t row) {
    const size_t at = size_t{row} * hidden;
    AddRmsNorm(level_, &x_[at], &delta_[at], layer.ffn_norm.data(), hidden, config_.norm_eps,
               hidden_.Row(row));
    hidden_.Seal(level_, row);
  });
  const size_t stride = size_t{ffn} * 2;
  MatMulAll(level_, pool_, hidden_,
            {{layer.gate, gate_up_.data(), stride}, {layer.up, gate_up_.data() + ffn, stride}});
  gated_.Resize(rows_, ffn, layer.down.quantized());
  ForRows(rows_, [&](uint32_t row) {
    const float* const gate = &gate_up_[row * stride];
    SiluGate(level_, gate, gate + ffn, ffn, gated_.Row(row));
    gated_.Seal(level_, row);
  });
  MatMulAll(level_, pool_, gated_, {{layer.down, delta_.data(), hidden}});
}

void Transformer::Logits(std::span<const uint32_t> rows, float* out) {
  const uint32_t hidden = config_.hidden_size;
  const auto count = static_cast<uint32_t>(rows.size());
  const PackedMatrix& head = weights_.head();
  hidden_.Resize(count, hidden, head.quantized());
  ForRows(count, [&](uint32_t i) {
    PIE_CHECK(rows[i] < rows_);
    RmsNorm(level_, &x_[size_t{rows[i]} * hidden], weights_.output_norm.data(), hidden,
            config_.norm_eps, hidden_.Row(i));
    hidden_.Seal(level_, i);
  });
  MatMulAll(level_, pool_, hidden_, {{head, out, config_.vocab_size}});
}

}  // namespace pie::cpu
