// Attention of new rows to the keys and values in their sequence's pages: grouped heads, causal,
// with an optional bitmap of what each row may see, a window, a cap on scores, and sinks.
//
// out = softmax(q · K × scale) V in one pass over the pages (online softmax). A query head h reads
// the key head h × kv_heads / heads. Row i of a member sees keys 0 … kv_tokens + i, of those only
// the ones whose bit is set if there is a mask; a row that sees nothing gets zeros. Keys that
// nobody in a tile sees are not read, 64 at a time.
//
// Products are those of floats, or of bfloat16 where the caller allows it and the processor has
// them: twice as fast, with factors of 8 bits and sums in float.
//
// A window counts keys, not positions: the row's own key and the window - 1 before it are seen,
// pages before them are not touched. A cap makes a score s cap × tanh(s / cap). A sink is one more
// score of a query head, which takes its part of the weights and adds nothing.
//
// Sequences are cut into spans of kSpanKeys that are merged in order, so that a single long
// sequence keeps all threads busy. Members with few rows whose pages begin alike are led through
// these together, so that what they share is read once. A row's result does not depend on the
// batch, the cuts, the threads or on what is shared.
//
// Owner: one backend; it keeps its buffers, so one call at a time. The pages of new rows have been
// written before (WriteKv). Shapes are the caller's to get right (checked).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/attention/attention_partial.h"
#include "backend/cpu/attention/attention_sharing.h"
#include "backend/cpu/attention/kv_layer.h"
#include "backend/cpu/machine/cpu_features.h"
#include "backend/cpu/machine/thread_pool.h"
#include "base/ids.h"

namespace pie::cpu {
namespace attention {
struct KeyRange;
}

// New rows of one sequence.
struct AttentionMember {
  const float* q = nullptr;  // [rows, heads × head_dim], rows q_stride apart
  float* out = nullptr;      // the same shape, rows out_stride apart; may be q
  uint32_t rows = 0;
  uint32_t kv_tokens = 0;         // keys before the first row
  std::span<const PageId> pages;  // cover kv_tokens + rows
  // Null = causal. Else [rows, mask_words]: bit k % 64 of word k / 64 = the row sees key k. Keys
  // beyond the last word are not seen.
  const uint64_t* mask = nullptr;
  size_t mask_words = 0;
};

struct AttentionShape {
  uint32_t heads = 0;  // of queries: a multiple of kv_heads
  float scale = 0;     // 1 / sqrt(head_dim), as a rule
  size_t q_stride = 0;
  size_t out_stride = 0;
  uint32_t window = 0;           // keys that a row sees, its own included; 0 = all
  float softcap = 0;             // 0 = none
  const float* sinks = nullptr;  // [heads]; null = none
  bool bf16 = false;             // factors may be rounded to bfloat16
};

class Attention {
 public:
  static constexpr uint32_t kSpanKeys = 512;  // multiple of 64
  static constexpr uint32_t kMaxHeadDim = 256;

  Attention(CpuLevel level, ThreadPool& pool) : level_(level), pool_(&pool) {}

  // Before the first Run of a batch: looks for prefixes that members share. All Runs until the next
  // call have members with these pages and rows; `group` is query heads a key head.
  void Share(std::span<const AttentionMember> members, uint32_t page_tokens, uint32_t group);

  void Run(const KvLayer& kv, const AttentionShape& shape,
           std::span<const AttentionMember> members);

  static constexpr uint32_t kTileLines = 64;

 private:
  static constexpr uint32_t kNone = ~0U;

  // One query head of one row.
  struct Line {
    uint32_t member;
    uint32_t row;
    uint32_t head;
  };
  // Some lines that read the same keys of one key head: of one member, or of several that share a
  // prefix.
  struct Tile {
    uint32_t kv_head;
    uint32_t first_line;  // into lines_
    uint32_t lines;
    uint32_t begin_key;     // what comes before, all lines have in a shared tile; multiple of 64
    uint32_t end_key;       // that the last line may see
    uint32_t spans_before;  // that this tile has nothing to do with
    uint32_t shared_tile;   // where the keys before begin_key are, or kNone …
    uint32_t shared_line;   // … and the first of this tile's lines there
  };
  // What tiles depend on besides the members.
  struct Cutting {
    uint32_t heads = 0;
    uint32_t kv_heads = 0;
    uint32_t window = 0;
    bool bf16 = false;
    bool operator==(const Cutting&) const = default;
  };
  struct Call {
    const KvLayer& kv;
    const AttentionShape& shape;
    std::span<const AttentionMember> members;
    uint32_t group;  // query heads a key head
    bool bf16;
  };

  // Lines a tile: many, so that what they read is converted once for all of them, but not so many
  // that threads have nothing to do. `work` is lines × spans of all tiles. Changes no result.
  uint32_t TileLines(const Call& call, uint64_t work) const;
  void CutShared(const Call& call);
  void CutOwn(const Call& call);
  void AddLines(const Call& call, uint32_t member, uint32_t kv_head, uint32_t first,
                uint32_t count);
  static const float* QueryOf(const Call& call, const Line& line);
  static float* OutputOf(const Call& call, const Line& line);
  static uint32_t FirstKey(const Call& call, const AttentionMember& member, uint32_t row);
  void Begin(const Call& call, const Tile& tile, const attention::Partial& total) const;
  void RunShared(const Call& call);
  // Keys of the span from tile.begin_key on.
  attention::KeyRange KeysOf(const Call& call, const Tile& tile, uint32_t span) const;
  // `out` has what the span gave before those; `next` is likely to come after them.
  void RunSpan(const Call& call, const Tile& tile, uint32_t span, const attention::KeyRange& next,
               const attention::Partial& out) const;
  // The same for a tile of Run, with what it has in a shared tile.
  void RunOwnSpan(const Call& call, const Tile& tile, uint32_t span,
                  const attention::KeyRange& next, const attention::Partial& out) const;
  void RunTile(const Call& call, uint32_t tile, bool apart) const;
  void Finish(const Call& call, const Tile& tile, const attention::Partial& total) const;

  CpuLevel level_;
  ThreadPool* pool_;
  Cutting cut_;  // what the tiles below were made for; of no heads: there are none
  std::vector<SharedPrefix> prefixes_;
  std::vector<Line> lines_;
  std::vector<Tile> shared_tiles_;
  std::vector<uint32_t> first_shared_span_;  // of each shared tile, and the end
  attention::Partials shared_results_;       // [shared spans]
  struct Place {                             // of a member's lines, for each key head
    uint32_t tile = kNone;
    uint32_t line = 0;
  };
  std::vector<Place> shared_places_;  // [members, kv_heads]
  std::vector<Tile> tiles_;
  std::vector<uint32_t> first_span_;  // of each tile, and the end
  attention::Partials results_;       // [spans], when they run apart
};

}  // namespace pie::cpu
