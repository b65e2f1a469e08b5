// Attention of new rows to the keys and values in their sequence's pages: grouped heads, causal,
// with an optional mask per row, a window, a cap on scores, and sinks.
//
// out = softmax(q · K × scale) V in one pass over the pages (online softmax). Query head h reads
// key head h × kv_heads / heads. Row i of a member sees keys 0 … kv_tokens + i, and with a mask
// only those whose bit is set; a row that sees no key gets zeros. Keys are skipped in blocks of 64
// if no row of a tile sees any of them.
//
// Products are computed in float, or in bfloat16 where the caller allows it and the processor
// supports it: twice as fast, with 8-bit significands and sums in float.
//
// A window counts keys, not positions: a row sees its own key and the window - 1 keys before it;
// earlier pages are not read. A cap replaces a score s by cap × tanh(s / cap). A sink is an extra
// score of a query head that takes its share of the weights and adds no value.
//
// Sequences are divided into spans of kSpanKeys keys whose results are merged in order, so that one
// long sequence keeps all threads busy. Members with few rows that share a prefix of pages are
// processed together, so that the shared pages are read once. A row's result does not depend on the
// batch, the tiling, the threads or the sharing.
//
// Owned by one backend. It keeps its buffers, so only one call may run at a time. The keys and
// values of the new rows must have been written (WriteKv). The caller must pass consistent shapes;
// they are checked.
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

// The new rows of one sequence.
struct AttentionMember {
  const float* q = nullptr;  // [rows, heads × head_dim], rows q_stride apart
  float* out = nullptr;      // same shape, rows out_stride apart; may alias q
  uint32_t rows = 0;
  uint32_t kv_tokens = 0;         // keys before the first row
  std::span<const PageId> pages;  // cover kv_tokens + rows
  // Null: causal. Otherwise [rows, mask_words]: bit k % 64 of word k / 64 is set if the row sees
  // key k. Keys beyond the last word are not seen.
  const uint64_t* mask = nullptr;
  size_t mask_words = 0;
};

struct AttentionShape {
  uint32_t heads = 0;  // query heads, a multiple of kv_heads
  float scale = 0;     // usually 1 / sqrt(head_dim)
  size_t q_stride = 0;
  size_t out_stride = 0;
  uint32_t window = 0;           // keys that a row sees, its own included; 0: all
  float softcap = 0;             // 0: none
  const float* sinks = nullptr;  // [heads]; null: none
  bool bf16 = false;             // products may be computed in bfloat16
};

class Attention {
 public:
  static constexpr uint32_t kSpanKeys = 512;  // multiple of 64
  static constexpr uint32_t kMaxHeadDim = 256;

  Attention(CpuLevel level, ThreadPool& pool) : level_(level), pool_(&pool) {}

  // Call before the first Run of a batch: finds the prefixes that members share. Until the next
  // call, every Run must have members with these pages and rows. `group` is the number of query
  // heads per key head.
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
  // A set of lines that read the same keys of one key head. Their rows belong to one member, or to
  // several that share a prefix.
  struct Tile {
    uint32_t kv_head;
    uint32_t first_line;  // into lines_
    uint32_t lines;
    uint32_t begin_key;     // all lines have earlier keys in a shared tile; multiple of 64
    uint32_t end_key;       // end of the keys that the last line sees
    uint32_t spans_before;  // spans at the front that no line of this tile sees
    uint32_t shared_tile;   // the shared tile with the keys before begin_key, or kNone …
    uint32_t shared_line;   // … and the index there of this tile's first line
  };
  // Everything but the members that the tiles depend on.
  struct Tiling {
    uint32_t heads = 0;
    uint32_t kv_heads = 0;
    uint32_t window = 0;
    bool bf16 = false;
    bool operator==(const Tiling&) const = default;
  };
  struct Call {
    const KvLayer& kv;
    const AttentionShape& shape;
    std::span<const AttentionMember> members;
    uint32_t group;  // query heads per key head
    bool bf16;
  };

  // Chooses the number of lines per tile: large, so that keys and values are converted once for
  // many lines, but small enough to keep all threads busy. `work` is lines × spans of all tiles.
  // Does not affect results.
  uint32_t TileLines(const Call& call, uint64_t work) const;
  void MakeSharedTiles(const Call& call);
  void MakeOwnTiles(const Call& call);
  void AddLines(const Call& call, uint32_t member, uint32_t kv_head, uint32_t first,
                uint32_t count);
  static const float* QueryOf(const Call& call, const Line& line);
  static float* OutputOf(const Call& call, const Line& line);
  static uint32_t FirstKey(const Call& call, const AttentionMember& member, uint32_t row);
  void Begin(const Call& call, const Tile& tile, const attention::Partial& total) const;
  void RunShared(const Call& call);
  // The keys of a span, from tile.begin_key on.
  attention::KeyRange KeysOf(const Call& call, const Tile& tile, uint32_t span) const;
  // Adds the keys of the span to `out`, which has the results of earlier keys. `next` is the range
  // that this thread will probably read next; it is prefetched.
  void RunSpan(const Call& call, const Tile& tile, uint32_t span, const attention::KeyRange& next,
               const attention::Partial& out) const;
  // The same for a tile of tiles_, starting from the results of its shared tile.
  void RunOwnSpan(const Call& call, const Tile& tile, uint32_t span,
                  const attention::KeyRange& next, const attention::Partial& out) const;
  void RunTile(const Call& call, uint32_t tile, bool apart) const;
  void Finish(const Call& call, const Tile& tile, const attention::Partial& total) const;

  CpuLevel level_;
  ThreadPool* pool_;
  Tiling tiling_;  // the sizes that the tiles below were made for; heads = 0: they are out of date
  std::vector<SharedPrefix> prefixes_;
  std::vector<Line> lines_;
  std::vector<Tile> shared_tiles_;
  std::vector<uint32_t> first_shared_span_;  // first span of each shared tile, and the total
  attention::Partials shared_results_;       // [shared spans]
  struct Place {  // of a member's lines in a shared tile, for one key head
    uint32_t tile = kNone;
    uint32_t line = 0;
  };
  std::vector<Place> shared_places_;  // [members, kv_heads]
  std::vector<Tile> tiles_;
  std::vector<uint32_t> first_span_;  // first span of each tile, and the total
  attention::Partials results_;       // [spans], used if spans run as separate tasks
};

}  // namespace pie::cpu
