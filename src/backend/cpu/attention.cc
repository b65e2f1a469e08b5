#include "backend/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/attention_kernels.h"
#include "backend/cpu/simd.h"
#include "base/result.h"
#include "model/half.h"

namespace pie::cpu {
namespace attention {
namespace {

// The lines of `from` from `first` on.
void CopyLines(const Partial& from, uint32_t first, uint32_t lines, uint32_t head_dim,
               Partial& to) {
  std::copy_n(from.max + first, lines, to.max);
  std::copy_n(from.sum + first, lines, to.sum);
  std::copy_n(from.values + size_t{first} * head_dim, size_t{lines} * head_dim, to.values);
}

// values = values × keep + more × add, [n].
void Mix(float* values, float keep, const float* more, float add, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) values[i] = values[i] * keep + more[i] * add;
}

PIE_AVX2 void MixAvx2(float* values, float keep, const float* more, float add, uint32_t n) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 kept = _mm256_mul_ps(_mm256_loadu_ps(values + i), _mm256_set1_ps(keep));
    const __m256 added = _mm256_mul_ps(_mm256_loadu_ps(more + i), _mm256_set1_ps(add));
    _mm256_storeu_ps(values + i, _mm256_add_ps(kept, added));
  }
  Mix(values + i, keep, more + i, add, n - i);
}

// out = x × factor, [n].
void Scale(const float* x, float factor, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; ++i) out[i] = x[i] * factor;
}

PIE_AVX2 void ScaleAvx2(const float* x, float factor, uint32_t n, float* out) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(factor)));
  }
  Scale(x + i, factor, n - i, out + i);
}

// Adds a later span to what earlier ones gave.
void Merge(CpuLevel level, const Partial& from, uint32_t lines, uint32_t head_dim, Partial& to) {
  for (uint32_t line = 0; line < lines; ++line) {
    const float from_max = from.max[line];
    if (from_max == kNothing) continue;
    const float max = std::max(from_max, to.max[line]);
    const float keep = std::exp(to.max[line] - max);
    const float add = std::exp(from_max - max);
    to.max[line] = max;
    to.sum[line] = to.sum[line] * keep + from.sum[line] * add;
    const auto mix = level >= CpuLevel::kAvx2 ? MixAvx2 : Mix;
    mix(to.values + size_t{line} * head_dim, keep, from.values + size_t{line} * head_dim, add,
        head_dim);
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

void Attention::Share(std::span<const AttentionMember> members, uint32_t page_tokens,
                      uint32_t group) {
  // Two members at least go into a tile. The reference takes no span in two parts.
  const uint32_t granule = level_ >= CpuLevel::kAvx2 ? attention::kBlock : kSpanKeys;
  std::vector<SharingMember> sharing;
  for (const AttentionMember& member : members) {
    const bool few = member.rows * group <= kTileLines / 2;
    sharing.push_back({member.pages, few ? member.kv_tokens : 0});
  }
  prefixes_ = FindSharedPrefixes(sharing, page_tokens, granule);
}

// `count` lines of one member and key head, from line `first` on. Lines are numbered row by row.
void Attention::AddLines(const Call& call, uint32_t member, uint32_t kv_head, uint32_t first,
                         uint32_t count) {
  for (uint32_t line = first; line < first + count; ++line) {
    lines_.push_back({member, line / call.group, kv_head * call.group + line % call.group});
  }
}

void Attention::CutShared(const Call& call) {
  lines_.clear();
  shared_tiles_.clear();
  first_shared_span_.assign(1, 0);
  shared_places_.assign(prefixes_.empty() ? 0 : call.members.size() * call.kv.kv_heads, {});
  for (const SharedPrefix& prefix : prefixes_) {
    for (uint32_t head = 0; head < call.kv.kv_heads; ++head) {
      bool full = true;
      for (uint32_t m : prefix.members) {
        const uint32_t lines = call.members[m].rows * call.group;
        if (full || shared_tiles_.back().lines + lines > kTileLines) {
          shared_tiles_.push_back({.kv_head = head,
                                   .first_line = static_cast<uint32_t>(lines_.size()),
                                   .end_key = prefix.keys,
                                   .shared_tile = kNone});
          first_shared_span_.push_back(first_shared_span_.back() +
                                       (prefix.keys + kSpanKeys - 1) / kSpanKeys);
          full = false;
        }
        Tile& tile = shared_tiles_.back();
        shared_places_[m * call.kv.kv_heads + head] = {
            static_cast<uint32_t>(shared_tiles_.size()) - 1, tile.lines};
        AddLines(call, m, head, 0, lines);
        tile.lines += lines;
      }
    }
  }
}

void Attention::CutOwn(const Call& call) {
  tiles_.clear();
  first_span_.assign(1, 0);
  for (uint32_t m = 0; m < call.members.size(); ++m) {
    const AttentionMember& member = call.members[m];
    PIE_CHECK(member.pages.size() * call.kv.page_tokens >= member.kv_tokens + member.rows);
    const uint32_t lines = member.rows * call.group;
    for (uint32_t head = 0; head < call.kv.kv_heads; ++head) {
      const Place place =
          shared_places_.empty() ? Place{} : shared_places_[m * call.kv.kv_heads + head];
      for (uint32_t line = 0; line < lines; line += kTileLines) {
        Tile tile{.kv_head = head,
                  .first_line = static_cast<uint32_t>(lines_.size()),
                  .lines = std::min(kTileLines, lines - line),
                  .shared_tile = place.tile,
                  .shared_line = place.line};
        AddLines(call, m, head, line, tile.lines);
        tile.end_key = member.kv_tokens + lines_.back().row + 1;
        tile.spans_before = FirstKey(call, member, line / call.group) / kSpanKeys;
        if (place.tile != kNone) tile.begin_key = shared_tiles_[place.tile].end_key;
        tiles_.push_back(tile);
        first_span_.push_back(first_span_.back() + (tile.end_key + kSpanKeys - 1) / kSpanKeys -
                              tile.spans_before);
      }
    }
  }
}

uint32_t Attention::FirstKey(const Call& call, const AttentionMember& member, uint32_t row) {
  const uint32_t end = member.kv_tokens + row + 1;
  return call.shape.window == 0 || call.shape.window >= end ? 0 : end - call.shape.window;
}

void Attention::RunSpan(const Call& call, const Tile& tile, uint32_t span, Partial& out) const {
  const std::span lines = std::span(lines_).subspan(tile.first_line, tile.lines);
  const uint32_t dim = call.kv.head_dim;
  alignas(64) float q[kTileLines * kMaxHeadDim];
  attention::Span work{.kv = &call.kv,
                       .kv_head = tile.kv_head,
                       .pages = call.members[lines[0].member].pages.data(),
                       .lines = tile.lines,
                       .q = q,
                       .begin_key = std::max(span * kSpanKeys, tile.begin_key),
                       .end_key = std::min((span + 1) * kSpanKeys, tile.end_key),
                       .softcap = call.shape.softcap};
  uint32_t first_key = ~0U;
  const auto scale = level_ >= CpuLevel::kAvx2 ? attention::ScaleAvx2 : attention::Scale;
  for (uint32_t i = 0; i < tile.lines; ++i) {
    const auto [m, row, head] = lines[i];
    const AttentionMember& member = call.members[m];
    scale(member.q + row * call.shape.q_stride + size_t{head} * dim, call.shape.scale, dim,
          q + size_t{i} * dim);
    work.begin[i] = FirstKey(call, member, row);
    work.end[i] = member.kv_tokens + row + 1;
    work.mask[i] = member.mask == nullptr ? nullptr : member.mask + row * member.mask_words;
    work.mask_words[i] = member.mask_words;
    first_key = std::min(first_key, work.begin[i]);
  }
  work.begin_key = std::max(work.begin_key, first_key / attention::kBlock * attention::kBlock);
  if (work.begin_key >= work.end_key) return;
  const auto run = level_ >= CpuLevel::kAvx512 ? attention::SpanAvx512
                   : level_ >= CpuLevel::kAvx2 ? attention::SpanAvx2
                                               : attention::SpanScalar;
  run(work, out);
}

void Attention::RunShared(const Call& call) {
  const uint32_t spans = first_shared_span_.back();
  if (shared_results_.size() < spans) shared_results_.resize(spans);
  pool_->ParallelFor(spans, [&](uint32_t i) {
    const auto after = std::ranges::upper_bound(first_shared_span_, i);
    const auto tile = static_cast<uint32_t>(after - first_shared_span_.begin()) - 1;
    attention::Clear(shared_results_[i], shared_tiles_[tile].lines, call.kv.head_dim);
    RunSpan(call, shared_tiles_[tile], i - first_shared_span_[tile], shared_results_[i]);
  });
}

// A span that was shared in part goes on from there; one that was shared wholly is all there.
void Attention::RunOwnSpan(const Call& call, const Tile& tile, uint32_t span, Partial& out) const {
  const uint32_t dim = call.kv.head_dim;
  if (tile.shared_tile != kNone && span * kSpanKeys < tile.begin_key) {
    const Partial& shared = shared_results_[first_shared_span_[tile.shared_tile] + span];
    attention::CopyLines(shared, tile.shared_line, tile.lines, dim, out);
    if ((span + 1) * kSpanKeys <= tile.begin_key) return;
  } else {
    attention::Clear(out, tile.lines, dim);
  }
  RunSpan(call, tile, span, out);
}

// Sinks are scores that come before all keys.
void Attention::Begin(const Call& call, const Tile& tile, Partial& total) const {
  attention::Clear(total, tile.lines, call.kv.head_dim);
  if (call.shape.sinks == nullptr) return;
  for (uint32_t i = 0; i < tile.lines; ++i) {
    total.max[i] = call.shape.sinks[lines_[tile.first_line + i].head];
    total.sum[i] = 1;
  }
}

void Attention::Finish(const Call& call, const Tile& tile, const Partial& total) const {
  const uint32_t dim = call.kv.head_dim;
  const auto scale = level_ >= CpuLevel::kAvx2 ? attention::ScaleAvx2 : attention::Scale;
  for (uint32_t i = 0; i < tile.lines; ++i) {
    const auto [m, row, head] = lines_[tile.first_line + i];
    float* const to = call.members[m].out + row * call.shape.out_stride + size_t{head} * dim;
    // A NaN among the scores stays one.
    const float factor = total.sum[i] == 0 ? 0 : 1 / total.sum[i];
    scale(total.values + size_t{i} * dim, factor, dim, to);
  }
}

void Attention::Run(const KvLayer& kv, const AttentionShape& shape,
                    std::span<const AttentionMember> members) {
  PIE_CHECK(shape.heads % kv.kv_heads == 0 && kv.head_dim <= kMaxHeadDim && kv.page_tokens > 0);
  const Call call{kv, shape, members, shape.heads / kv.kv_heads};
  CutShared(call);
  CutOwn(call);
  if (!shared_tiles_.empty()) RunShared(call);
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
      RunOwnSpan(call, tiles_[tile], span, results_[i]);
    });
  }
  pool_->ParallelFor(tiles, [&](uint32_t t) {
    const Tile& tile = tiles_[t];
    Partial total;
    Partial partial;
    Begin(call, tile, total);
    for (uint32_t i = first_span_[t]; i < first_span_[t + 1]; ++i) {
      // The first needs no merging where nothing comes before it.
      const bool first = i == first_span_[t] && shape.sinks == nullptr;
      if (!apart) {
        RunOwnSpan(call, tile, tile.spans_before + i - first_span_[t], first ? total : partial);
      } else if (first) {
        attention::CopyLines(results_[i], 0, tile.lines, kv.head_dim, total);
      }
      if (first) continue;
      attention::Merge(level_, apart ? results_[i] : partial, tile.lines, kv.head_dim, total);
    }
    Finish(call, tile, total);
  });
}

}  // namespace pie::cpu
