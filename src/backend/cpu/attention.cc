#include "backend/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/attention_kernels.h"
#include "base/result.h"
#include "model/half.h"

namespace pie::cpu {
namespace attention {
namespace {

// Adds a later span to what earlier ones gave.
void Merge(const Partial& from, uint32_t lines, uint32_t head_dim, Partial& to) {
  for (uint32_t line = 0; line < lines; ++line) {
    if (from.max[line] == kNothing) continue;
    const float max = std::max(from.max[line], to.max[line]);
    const float keep = std::exp(to.max[line] - max);
    const float add = std::exp(from.max[line] - max);
    to.max[line] = max;
    to.sum[line] = to.sum[line] * keep + from.sum[line] * add;
    float* const values = to.values + size_t{line} * head_dim;
    const float* const more = from.values + size_t{line} * head_dim;
    for (uint32_t d = 0; d < head_dim; ++d) values[d] = values[d] * keep + more[d] * add;
  }
}

}  // namespace

// The reference: a softmax in two passes, one line after the other.
void SpanScalar(const Span& span, Partial& out) {
  const uint32_t dim = span.kv->head_dim;
  for (uint32_t line = 0; line < span.lines; ++line) {
    float scores[Attention::kSpanKeys];
    const auto sees = [&](uint32_t key) {
      return (span.Visible(line, key / kBlock * kBlock) >> (key % kBlock) & 1) != 0;
    };
    for (uint32_t key = span.begin_key; key < span.end_key; ++key) {
      if (!sees(key)) continue;
      const uint16_t* const keys = span.Find(key).keys;
      float score = 0;
      for (uint32_t d = 0; d < dim; ++d) {
        const float k = HalfToFloat(keys[size_t{d} * span.kv->page_tokens]);
        score += span.q[line * dim + d] * k;
      }
      if (span.softcap != 0) score = span.softcap * std::tanh(score / span.softcap);
      scores[key - span.begin_key] = score;
      out.max[line] = std::max(out.max[line], score);
    }
    for (uint32_t key = span.begin_key; key < span.end_key; ++key) {
      if (!sees(key)) continue;
      const float weight = std::exp(scores[key - span.begin_key] - out.max[line]);
      out.sum[line] += weight;
      const uint16_t* const value = span.Find(key).values;
      for (uint32_t d = 0; d < dim; ++d) {
        out.values[line * dim + d] += weight * HalfToFloat(value[d]);
      }
    }
  }
}

}  // namespace attention

void Attention::Cut(const Call& call) {
  tiles_.clear();
  first_span_.assign(1, 0);
  for (uint32_t m = 0; m < call.members.size(); ++m) {
    const AttentionMember& member = call.members[m];
    PIE_CHECK(member.pages.size() * call.kv.page_tokens >= member.kv_tokens + member.rows);
    const uint32_t lines = member.rows * call.group;
    for (uint32_t head = 0; head < call.kv.kv_heads; ++head) {
      for (uint32_t line = 0; line < lines; line += kTileLines) {
        const uint32_t count = std::min(kTileLines, lines - line);
        const uint32_t keys = member.kv_tokens + (line + count - 1) / call.group + 1;
        const uint32_t before = FirstKey(call, member, line / call.group) / kSpanKeys;
        tiles_.push_back({m, head, line, count, keys, before});
        first_span_.push_back(first_span_.back() + (keys + kSpanKeys - 1) / kSpanKeys - before);
      }
    }
  }
}

uint32_t Attention::FirstKey(const Call& call, const AttentionMember& member, uint32_t row) {
  const uint32_t end = member.kv_tokens + row + 1;
  return call.shape.window == 0 || call.shape.window >= end ? 0 : end - call.shape.window;
}

void Attention::RunSpan(const Call& call, const Tile& tile, uint32_t span, Partial& out) const {
  const AttentionMember& member = call.members[tile.member];
  const uint32_t dim = call.kv.head_dim;
  alignas(64) float q[kTileLines * kMaxHeadDim];
  attention::Span work{.kv = &call.kv,
                       .kv_head = tile.kv_head,
                       .pages = member.pages.data(),
                       .lines = tile.lines,
                       .q = q,
                       .mask_words = member.mask_words,
                       .begin_key = span * kSpanKeys,
                       .end_key = std::min((span + 1) * kSpanKeys, tile.keys),
                       .softcap = call.shape.softcap};
  const uint32_t first_key = FirstKey(call, member, tile.first_line / call.group);
  work.begin_key = std::max(work.begin_key, first_key / attention::kBlock * attention::kBlock);
  for (uint32_t i = 0; i < tile.lines; ++i) {
    const uint32_t row = (tile.first_line + i) / call.group;
    const uint32_t head = tile.kv_head * call.group + (tile.first_line + i) % call.group;
    const float* const from = member.q + row * call.shape.q_stride + size_t{head} * dim;
    for (uint32_t d = 0; d < dim; ++d) q[i * dim + d] = from[d] * call.shape.scale;
    work.begin[i] = FirstKey(call, member, row);
    work.end[i] = member.kv_tokens + row + 1;
    work.mask[i] = member.mask == nullptr ? nullptr : member.mask + row * member.mask_words;
  }
  attention::Clear(out, tile.lines, dim);
  const auto run = level_ >= CpuLevel::kAvx512 ? attention::SpanAvx512
                   : level_ >= CpuLevel::kAvx2 ? attention::SpanAvx2
                                               : attention::SpanScalar;
  run(work, out);
}

// Sinks are scores that come before all keys.
void Attention::Begin(const Call& call, const Tile& tile, Partial& total) {
  attention::Clear(total, tile.lines, call.kv.head_dim);
  if (call.shape.sinks == nullptr) return;
  for (uint32_t i = 0; i < tile.lines; ++i) {
    total.max[i] = call.shape.sinks[tile.kv_head * call.group + (tile.first_line + i) % call.group];
    total.sum[i] = 1;
  }
}

void Attention::Finish(const Call& call, const Tile& tile, const Partial& total) const {
  const AttentionMember& member = call.members[tile.member];
  const uint32_t dim = call.kv.head_dim;
  for (uint32_t i = 0; i < tile.lines; ++i) {
    const uint32_t row = (tile.first_line + i) / call.group;
    const uint32_t head = tile.kv_head * call.group + (tile.first_line + i) % call.group;
    float* const to = member.out + row * call.shape.out_stride + size_t{head} * dim;
    // A NaN among the scores stays one.
    const float factor = total.sum[i] == 0 ? 0 : 1 / total.sum[i];
    for (uint32_t d = 0; d < dim; ++d) to[d] = total.values[size_t{i} * dim + d] * factor;
  }
}

void Attention::Run(const KvLayer& kv, const AttentionShape& shape,
                    std::span<const AttentionMember> members) {
  PIE_CHECK(shape.heads % kv.kv_heads == 0 && kv.head_dim <= kMaxHeadDim && kv.page_tokens > 0);
  const Call call{kv, shape, members, shape.heads / kv.kv_heads};
  Cut(call);
  const auto tiles = static_cast<uint32_t>(tiles_.size());
  const uint32_t spans = first_span_.back();
  // Few tiles of many spans: spans are what threads share.
  const bool apart = tiles < 4 * pool_->threads() && spans > tiles;
  if (apart) {
    if (results_.size() < spans) results_.resize(spans);
    pool_->ParallelFor(spans, [&](uint32_t i) {
      const auto after = std::ranges::upper_bound(first_span_, i);
      const auto tile = static_cast<uint32_t>(after - first_span_.begin()) - 1;
      const uint32_t span = tiles_[tile].spans_before + i - first_span_[tile];
      RunSpan(call, tiles_[tile], span, results_[i]);
    });
  }
  pool_->ParallelFor(tiles, [&](uint32_t t) {
    const Tile& tile = tiles_[t];
    Partial total;
    Partial partial;
    Begin(call, tile, total);
    for (uint32_t i = first_span_[t]; i < first_span_[t + 1]; ++i) {
      if (!apart) RunSpan(call, tile, tile.spans_before + i - first_span_[t], partial);
      attention::Merge(apart ? results_[i] : partial, tile.lines, kv.head_dim, total);
    }
    Finish(call, tile, total);
  });
}

}  // namespace pie::cpu
