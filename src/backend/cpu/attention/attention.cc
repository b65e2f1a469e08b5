#include "backend/cpu/attention/attention.h"

#include <algorithm>

#include "backend/cpu/attention/attention_kernels.h"
#include "backend/cpu/attention/attention_unpack.h"
#include "backend/cpu/machine/aligned.h"
#include "base/result.h"

namespace pie::cpu {
namespace {

using attention::Partial;

// Members with at most this many lines are processed together where they share a prefix.
constexpr uint32_t kFewLines = 8;

}  // namespace

void Attention::Share(std::span<const AttentionMember> members, uint32_t page_tokens,
                      uint32_t group) {
  // The scalar kernel computes a whole span at once, so sharing must end at a span there.
  const uint32_t granule = level_ >= CpuLevel::kAvx2 ? attention::kBlock : kSpanKeys;
  std::vector<SharingMember> sharing;
  for (const AttentionMember& member : members) {
    const bool few = member.rows * group <= kFewLines;
    sharing.push_back({member.pages, few ? member.kv_tokens : 0});
  }
  prefixes_ = FindSharedPrefixes(sharing, page_tokens, granule);
  tiling_ = {};
}

uint32_t Attention::TileLines(const Call& call, uint64_t work) const {
  uint32_t lines = call.bf16 ? kTileLines : 16;
  while (lines > 16 && work / lines < uint64_t{3} * pool_->threads()) lines /= 2;
  return lines;
}

// Appends `count` lines of one member and key head, beginning with line `first`. Lines are numbered
// row by row.
void Attention::AddLines(const Call& call, uint32_t member, uint32_t kv_head, uint32_t first,
                         uint32_t count) {
  for (uint32_t line = first; line < first + count; ++line) {
    lines_.push_back({member, line / call.group, kv_head * call.group + line % call.group});
  }
}

void Attention::MakeSharedTiles(const Call& call) {
  lines_.clear();
  shared_tiles_.clear();
  first_shared_span_.assign(1, 0);
  shared_places_.assign(prefixes_.empty() ? 0 : call.members.size() * call.kv.kv_heads, {});
  for (const SharedPrefix& prefix : prefixes_) {
    const uint32_t spans = (prefix.keys + kSpanKeys - 1) / kSpanKeys;
    uint64_t work = 0;
    for (uint32_t m : prefix.members) work += uint64_t{call.members[m].rows} * call.shape.heads;
    const uint32_t tile_lines = TileLines(call, work * spans);
    for (uint32_t head = 0; head < call.kv.kv_heads; ++head) {
      bool full = true;
      for (uint32_t m : prefix.members) {
        const uint32_t lines = call.members[m].rows * call.group;
        if (full || shared_tiles_.back().lines + lines > tile_lines) {
          shared_tiles_.push_back({.kv_head = head,
                                   .first_line = static_cast<uint32_t>(lines_.size()),
                                   .end_key = prefix.keys,
                                   .shared_tile = kNone});
          first_shared_span_.push_back(first_shared_span_.back() + spans);
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

void Attention::MakeOwnTiles(const Call& call) {
  tiles_.clear();
  first_span_.assign(1, 0);
  uint64_t work = 0;
  for (const AttentionMember& member : call.members)
    work += uint64_t{member.rows} * call.shape.heads;
  const uint32_t tile_lines = TileLines(call, work);
  for (uint32_t m = 0; m < call.members.size(); ++m) {
    const AttentionMember& member = call.members[m];
    PIE_CHECK(member.pages.size() * call.kv.page_tokens >= member.kv_tokens + member.rows);
    const uint32_t lines = member.rows * call.group;
    for (uint32_t head = 0; head < call.kv.kv_heads; ++head) {
      const Place place =
          shared_places_.empty() ? Place{} : shared_places_[m * call.kv.kv_heads + head];
      for (uint32_t line = 0; line < lines; line += tile_lines) {
        Tile tile{.kv_head = head,
                  .first_line = static_cast<uint32_t>(lines_.size()),
                  .lines = std::min(tile_lines, lines - line),
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

const float* Attention::QueryOf(const Call& call, const Line& line) {
  return call.members[line.member].q + line.row * call.shape.q_stride +
         size_t{line.head} * call.kv.head_dim;
}

float* Attention::OutputOf(const Call& call, const Line& line) {
  return call.members[line.member].out + line.row * call.shape.out_stride +
         size_t{line.head} * call.kv.head_dim;
}

attention::KeyRange Attention::KeysOf(const Call& call, const Tile& tile, uint32_t span) const {
  return {.kv = &call.kv,
          .kv_head = tile.kv_head,
          .pages = call.members[lines_[tile.first_line].member].pages.data(),
          .begin_key = std::max(span * kSpanKeys, tile.begin_key),
          .end_key = std::min((span + 1) * kSpanKeys, tile.end_key)};
}

void Attention::RunSpan(const Call& call, const Tile& tile, uint32_t span,
                        const attention::KeyRange& next, const Partial& out) const {
  const std::span lines = std::span(lines_).subspan(tile.first_line, tile.lines);
  const uint32_t dim = call.kv.head_dim;
  alignas(64) float q[kTileLines * kMaxHeadDim];
  attention::Span work;
  static_cast<attention::KeyRange&>(work) = KeysOf(call, tile, span);
  work.lines = tile.lines;
  work.q = q;
  work.softcap = call.shape.softcap;
  work.next = next;
  uint32_t first_key = ~0U;
  for (const Line& line : lines) PrefetchForRead(QueryOf(call, line), dim * sizeof(float));
  for (uint32_t i = 0; i < tile.lines; ++i) {
    const auto [m, row, head] = lines[i];
    const AttentionMember& member = call.members[m];
    attention::Scale(level_, QueryOf(call, lines[i]), call.shape.scale, dim, q + size_t{i} * dim);
    work.begin[i] = FirstKey(call, member, row);
    work.end[i] = member.kv_tokens + row + 1;
    work.mask[i] = member.mask == nullptr ? nullptr : member.mask + row * member.mask_words;
    work.mask_words[i] = member.mask_words;
    first_key = std::min(first_key, work.begin[i]);
  }
  work.begin_key = std::max(work.begin_key, first_key / attention::kBlock * attention::kBlock);
  if (work.begin_key >= work.end_key) return;
  const auto run = call.bf16                     ? attention::SpanBf16
                   : level_ >= CpuLevel::kAvx512 ? attention::SpanAvx512
                   : level_ >= CpuLevel::kAvx2   ? attention::SpanAvx2
                                                 : attention::SpanScalar;
  if (call.kv.type == KvType::kQ8 && !call.bf16) {
    return attention::RunUnpacked(level_, work, run, out);
  }
  run(work, out);
}

void Attention::RunShared(const Call& call) {
  const uint32_t spans = first_shared_span_.back();
  uint32_t lines = 0;
  for (const Tile& tile : shared_tiles_) lines = std::max(lines, tile.lines);
  shared_results_.Resize(spans, lines, call.kv.head_dim);
  pool_->ParallelFor(spans, [&](uint32_t i) {
    const auto after = std::ranges::upper_bound(first_shared_span_, i);
    const auto tile = static_cast<uint32_t>(after - first_shared_span_.begin()) - 1;
    attention::Clear(shared_results_.At(i), shared_tiles_[tile].lines, call.kv.head_dim);
    RunSpan(call, shared_tiles_[tile], i - first_shared_span_[tile], {}, shared_results_.At(i));
  });
}

// Continues a span that was partly shared from the shared result; a span that was wholly shared
// needs only the copy.
void Attention::RunOwnSpan(const Call& call, const Tile& tile, uint32_t span,
                           const attention::KeyRange& next, const Partial& out) const {
  const uint32_t dim = call.kv.head_dim;
  if (tile.shared_tile != kNone && span * kSpanKeys < tile.begin_key) {
    const Partial shared = shared_results_.At(first_shared_span_[tile.shared_tile] + span);
    attention::CopyLines(shared, tile.shared_line, tile.lines, dim, out);
    if ((span + 1) * kSpanKeys <= tile.begin_key) return;
  } else {
    attention::Clear(out, tile.lines, dim);
  }
  RunSpan(call, tile, span, next, out);
}

// A sink is a score that precedes all keys.
void Attention::Begin(const Call& call, const Tile& tile, const Partial& total) const {
  attention::Clear(total, tile.lines, call.kv.head_dim);
  if (call.shape.sinks == nullptr) return;
  for (uint32_t i = 0; i < tile.lines; ++i) {
    total.max[i] = call.shape.sinks[lines_[tile.first_line + i].head];
    total.sum[i] = 1;
  }
}

void Attention::Finish(const Call& call, const Tile& tile, const Partial& total) const {
  const uint32_t dim = call.kv.head_dim;
  for (uint32_t i = 0; i < tile.lines; ++i) {
    // The test for 0 lets a NaN among the scores through to the output.
    const float factor = total.sum[i] == 0 ? 0 : 1 / total.sum[i];
    attention::Scale(level_, total.values + size_t{i} * dim, factor, dim,
                     OutputOf(call, lines_[tile.first_line + i]));
  }
}

// `apart`: the spans have already run as separate tasks, and results_ has their results.
void Attention::RunTile(const Call& call, uint32_t t, bool apart) const {
  const Tile& tile = tiles_[t];
  const uint32_t dim = call.kv.head_dim;
  alignas(64) float total_memory[Partial::Floats(kTileLines, kMaxHeadDim)];
  alignas(64) float partial_memory[Partial::Floats(kTileLines, kMaxHeadDim)];
  const Partial total = Partial::In(total_memory, tile.lines);
  const Partial partial = Partial::In(partial_memory, tile.lines);
  for (uint32_t i = 0; i < tile.lines; ++i) {
    PrefetchForWrite(OutputOf(call, lines_[tile.first_line + i]), dim * sizeof(float));
  }
  Begin(call, tile, total);
  const auto next_keys = [&](uint32_t span) -> attention::KeyRange {
    if (span < tile.spans_before + first_span_[t + 1] - first_span_[t]) {
      return KeysOf(call, tile, span);
    }
    // Threads take tiles in descending order, so this thread's next tile is probably t - threads.
    const uint32_t threads = pool_->threads();
    if (t < threads) return {};
    return KeysOf(call, tiles_[t - threads], tiles_[t - threads].spans_before);
  };
  for (uint32_t i = first_span_[t]; i < first_span_[t + 1]; ++i) {
    // The first span is written directly to `total`, unless sinks are already there.
    const bool first = i == first_span_[t] && call.shape.sinks == nullptr;
    if (!apart) {
      const uint32_t span = tile.spans_before + i - first_span_[t];
      RunOwnSpan(call, tile, span, next_keys(span + 1), first ? total : partial);
    } else if (first) {
      attention::CopyLines(results_.At(i), 0, tile.lines, dim, total);
    }
    if (first) continue;
    attention::Merge(level_, apart ? results_.At(i) : partial, tile.lines, dim, total);
  }
  Finish(call, tile, total);
}

void Attention::Run(const KvLayer& kv, const AttentionShape& shape,
                    std::span<const AttentionMember> members) {
  PIE_CHECK(shape.heads % kv.kv_heads == 0 && kv.head_dim <= kMaxHeadDim && kv.page_tokens > 0);
  const Call call{kv, shape, members, shape.heads / kv.kv_heads,
                  shape.bf16 && level_ >= CpuLevel::kAvx512Bf16};
  // Most layers of a batch have the same tiling, so tiles are reused.
  const Tiling tiling{shape.heads, kv.kv_heads, shape.window, call.bf16};
  if (tiling_ != tiling) {
    MakeSharedTiles(call);
    MakeOwnTiles(call);
    tiling_ = tiling;
  }
  if (!shared_tiles_.empty()) RunShared(call);
  const auto tiles = static_cast<uint32_t>(tiles_.size());
  const uint32_t spans = first_span_.back();
  // With few tiles of many spans, each span is a task of its own.
  const bool apart = tiles < 4 * pool_->threads() && spans > tiles;
  if (apart) {
    uint32_t lines = 0;
    for (const Tile& tile : tiles_) lines = std::max(lines, tile.lines);
    results_.Resize(spans, lines, kv.head_dim);
    pool_->ParallelFor(spans, [&](uint32_t i) {
      const auto after = std::ranges::upper_bound(first_span_, i);
      const auto tile = static_cast<uint32_t>(after - first_span_.begin()) - 1;
      const uint32_t span = tiles_[tile].spans_before + i - first_span_[tile];
      RunOwnSpan(call, tiles_[tile], span, {}, results_.At(i));
    });
  }
  // Later rows see more keys, so the tiles that take longest run first and the threads finish
  // together.
  pool_->ParallelFor(tiles, [&](uint32_t i) { RunTile(call, tiles - 1 - i, apart); });
}

}  // namespace pie::cpu
