// Step: the description of a batch that the kernels read. It is one block of memory, a StepHeader
// followed by arrays, which is copied to the device before the kernels run and does not change
// while they do. Kernels find the arrays by offsets in the header, so a recorded graph runs any
// batch of its size.
#pragma once

#include <cstdint>

namespace pie::cuda {

inline constexpr uint32_t kNone = 0xFFFFFFFFU;

// Rows of the batch that attend to the same keys. They have at most as many lines (rows × heads of
// a group) as the attention kernel of that size takes (attention.h).
struct AttentionTile {
  uint32_t first_row;  // into tile_rows
  uint32_t rows;
  uint32_t first_page;  // into pages: the page of key 0
  uint32_t begin_key;   // multiple of 64
  uint32_t end_key;
  uint32_t all_see;  // the least of the rows' limits: no row's own key is before it
  uint32_t has_masks;
};

struct TileRow {
  uint32_t row;
  uint32_t part;  // where the result goes: a partial result, or kNone: the row's output itself
};

struct RowParts {  // the partial results of a row; none: its output is complete
  uint32_t first;
  uint32_t count;
};

struct SampleItem {
  enum class Kind : uint32_t { kGreedy, kById, kMinP, kByRank };

  Kind kind;
  uint32_t read;  // which of the rows that are read
  uint32_t k;     // by rank: only the k likeliest; 0: all
  float p;        // by rank: only the fewest that have this share; min-p: the least weight
  float inverse;  // 1 / temperature
  uint32_t draws;
  uint32_t mask;    // offset of a bit mask in words, or kNone
  uint32_t slot;    // of the first draw, in the outputs
  uint32_t chosen;  // where the first draw is kept for later batches, or kNone
  uint32_t padding;
  uint64_t random;  // Mix(seed, spec, row)
};

struct ProbeItem {
  uint32_t read;
  uint32_t first_id;  // into ids: log-probabilities of these tokens
  uint32_t ids;
  uint32_t slot;  // of the first log-probability in the outputs; without ids, of the entropy
};

struct AdapterUse {   // of a row
  uint64_t matrices;  // address of the adapter's matrices (low_rank.h) on the device; 0: none
  uint64_t seed;      // of its noise, without the sign; 0: none
  float sigma;        // with the sign of the seed
  uint32_t padding;
};

struct StepHeader {
  uint64_t ticket;
  uint32_t rows;
  uint32_t reads;  // rows whose logits are wanted
  uint32_t small_tiles;
  uint32_t large_tiles;
  uint32_t output;  // which of the output blocks is written
  uint32_t items;
  uint32_t probes;
  uint32_t page_copies;
  // Offsets of the arrays in bytes, from the header on.
  uint32_t tokens;        // uint32_t [rows]
  uint32_t sources;       // uint32_t [rows]: index of a chosen token, or kNone
  uint32_t positions;     // uint32_t [rows]
  uint32_t places;        // uint64_t [rows]: page × page_tokens + slot of the row's key
  uint32_t limits;        // uint32_t [rows]: keys that the row sees at most
  uint32_t masks;         // uint32_t [rows]: offset in mask_words, or kNone
  uint32_t mask_words;    // uint32_t []: bits of attention masks and logit masks
  uint32_t pages;         // uint32_t []
  uint32_t tiles;         // AttentionTile [small_tiles + large_tiles]
  uint32_t tile_rows;     // TileRow []
  uint32_t row_parts;     // RowParts [rows]
  uint32_t read_rows;     // uint32_t [reads]
  uint32_t sample_items;  // SampleItem []
  uint32_t probe_items;   // ProbeItem []
  uint32_t ids;           // uint32_t []
  uint32_t copies;        // uint32_t [page_copies, 2]: from, to
  uint32_t adapters;      // AdapterUse [rows], if any row has an adapter
};

template <class T>
#ifdef __CUDACC__
__host__ __device__
#endif
    inline const T*
    ArrayOf(const StepHeader* step, uint32_t offset) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(step) + offset);
}

}  // namespace pie::cuda
