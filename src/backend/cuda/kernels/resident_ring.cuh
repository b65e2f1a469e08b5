// The ring of stages in shared memory through which everything comes that a block of
// resident_step.cu reads in bulk: weights, norms, keys and values. One warp asks for it, and the
// others use it in the same order.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/bulk_copies.cuh"
#include "backend/cuda/kernels/meetings.cuh"
#include "backend/cuda/kernels/resident_layout.cuh"

namespace pie::cuda {

// Where a block's consumers are in the ring.
struct RingPlace {
  uint32_t stage = 0;
  uint32_t parity = 0;
  uint32_t turn = 0;  // tiles so far

  uint32_t count = 0;  // stages so far

  __device__ void Next(uint32_t stages) {
    ++count;
    if (++stage != stages) return;
    stage = 0;
    parity ^= 1U;
  }
};

// The data of the only row of a step.
struct RowOfStep {
  uint32_t limit = 0;
  const uint32_t* mask = nullptr;
  const uint32_t* pages = nullptr;
  uint32_t now_page = 0;  // of this step's key
  uint32_t now_slot = 0;
  uint32_t new_key = kNone;  // its number among the keys, if the row sees it

  __device__ explicit RowOfStep(const ResidentStep& r) {
    const StepHeader* const header = r.step;
    limit = ArrayOf<uint32_t>(header, header->limits)[0];
    const uint32_t mask_at = ArrayOf<uint32_t>(header, header->masks)[0];
    if (mask_at != kNone) mask = ArrayOf<uint32_t>(header, header->mask_words) + mask_at;
    const uint32_t first_page = header->small_tiles + header->large_tiles == 0
                                    ? 0
                                    : ArrayOf<AttentionTile>(header, header->tiles)->first_page;
    pages = ArrayOf<uint32_t>(header, header->pages) + first_page;
    const uint64_t place = ArrayOf<uint64_t>(header, header->places)[0];
    now_page = static_cast<uint32_t>(place / r.kv.page_tokens);
    now_slot = static_cast<uint32_t>(place % r.kv.page_tokens);
    // A step's own key is the last of all.
    const uint32_t last = limit - 1;
    if (limit > 0 && pages[last / r.kv.page_tokens] == now_page &&
        last % r.kv.page_tokens == now_slot) {
      new_key = last;
    }
  }
  __device__ uint32_t BeginOf(uint32_t window) const {
    return window != 0 && limit > window ? limit - window : 0;
  }
  // The keys of a piece.
  struct Range {
    uint32_t from;
    uint32_t to;
  };
  __device__ Range PieceOf(uint32_t window, uint32_t splits, uint32_t piece) const {
    const uint32_t begin = BeginOf(window);
    const uint32_t each = (limit - begin + splits - 1) / splits;
    const uint32_t from = min(begin + piece * each, limit);
    return {from, min(from + each, limit)};
  }
  __device__ bool Allows(uint32_t key) const {
    return mask == nullptr || (mask[key / 32] >> (key % 32) & 1U) != 0;
  }
};

// The places of the ring that a block's fetching warp fills, one after the other.
class RingWriter {
 public:
  __device__ RingWriter(const ResidentLayout& room, char* shared)
      : stages_(room.stages),
        ring_(shared + room.ring),
        full_(reinterpret_cast<uint64_t*>(shared + room.barriers)) {}

  // Waits for a free stage, and until fewer than `most` are on their way.
  __device__ void Take(uint32_t most) {
    for (; under_way_ >= most; --under_way_) {
      AwaitPhase(&full_[oldest_], oldest_parity_);
      Advance(oldest_, oldest_parity_);
    }
    AwaitPhase(&full_[kMostStages + stage_], parity_);
    ++under_way_;
  }
  __device__ char* memory() const { return ring_ + stage_ * kStageBytes; }
  __device__ uint64_t* full() const { return &full_[stage_]; }
  __device__ void Next() { Advance(stage_, parity_); }

 private:
  __device__ void Advance(uint32_t& stage, uint32_t& parity) const {
    if (++stage != stages_) return;
    stage = 0;
    parity ^= 1U;
  }

  const uint32_t stages_;
  char* const ring_;
  uint64_t* const full_;
  uint32_t stage_ = 0;
  uint32_t parity_ = 1;  // the ring begins empty
  // The oldest stage that is on its way, and how many are.
  uint32_t oldest_ = 0;
  uint32_t oldest_parity_ = 0;
  uint32_t under_way_ = 0;
};

// Asks for the norm's weights of a phase.
__device__ inline void FetchNorm(const ResidentStep& r, const ResidentPhase& phase,
                                 const ResidentLayout& room, RingWriter& ring) {
  if (phase.input != ResidentInput::kNormed || phase.norm == nullptr) return;
  ring.Take(room.stages);
  if (threadIdx.x % 32 == 0) {
    ArriveExpecting(ring.full(), r.hidden * 4);
    BulkCopy(ring.memory(), phase.norm, r.hidden * 4, ring.full());
  }
  ring.Next();
}

// Asks for this block's tiles of W.
__device__ inline void FetchTiles(const ResidentStep& r, const ResidentPhase& phase,
                                  const ResidentLayout& room, RingWriter& ring) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t n = phase.n;
  const uint32_t k = phase.k;
  const WeightKind kind = phase.kind;
  const char* const w = static_cast<const char*>(phase.w);
  const char* const scales = static_cast<const char*>(phase.scales);
  const uint32_t tile_bytes = TileBytes(kind);
  const uint32_t scale_bytes = kTileRows * ScaleBytes(kind);
  const uint32_t spans = static_cast<uint32_t>(SpansOf(k));
  const uint32_t stage_columns = StageColumns(kind);
  const uint32_t stage_bytes = kTileRows * min(stage_columns, k) * BitsOf(kind) / 8;
  const uint32_t most = min(room.stages, max(2U, (kBytesUnderWay + stage_bytes - 1) / stage_bytes));
  for (uint32_t tile = blockIdx.x; tile * kTileRows < n; tile += gridDim.x) {
    for (uint32_t column = 0; column < k; column += stage_columns) {
      ring.Take(most);
      char* const to = ring.memory();
      if (kind == WeightKind::kBf16) {
        const uint32_t rows = min(kTileRows, n - tile * kTileRows);
        const uint32_t bytes = min(kStageColumns, k - column) * 2;
        if (lane == 0) ArriveExpecting(ring.full(), rows * bytes);
        __syncwarp();
        if (lane < rows) {
          const uint64_t row = static_cast<uint64_t>(tile) * kTileRows + lane;
          BulkCopy(to + lane * kStageRowBytes, w + (row * k + column) * 2, bytes, ring.full());
        }
      } else if (lane == 0) {
        const uint32_t count = min(stage_columns / kSpan, spans - column / kSpan);
        const uint64_t first = static_cast<uint64_t>(tile) * spans + column / kSpan;
        ArriveExpecting(ring.full(), count * (tile_bytes + scale_bytes));
        BulkCopy(to, w + first * tile_bytes, count * tile_bytes, ring.full());
        BulkCopy(to + stage_columns / kSpan * tile_bytes, scales + first * scale_bytes,
                 count * scale_bytes, ring.full());
      }
      ring.Next();
    }
  }
}

// Asks for the keys and values of this block's piece. The lines of a page follow one another. This
// step's own line comes too, and is replaced when it has been computed.
__device__ inline void FetchPiece(const ResidentStep& r, const ResidentPhase& phase,
                                  const RowOfStep& row, const ResidentLayout& room,
                                  RingWriter& ring) {
  const KvShape& kv = r.kv;
  if (blockIdx.x >= kv.kv_heads * r.splits) return;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t kv_head = blockIdx.x % kv.kv_heads;
  const RowOfStep::Range range = row.PieceOf(phase.window, r.splits, blockIdx.x / kv.kv_heads);
  const uint32_t line_bytes = kv.line_bytes();
  for (uint32_t first = range.from; first < range.to; first += room.block_keys) {
    const uint32_t end = min(first + room.block_keys, range.to);
#pragma unroll 1
    for (uint32_t value = 0; value < 2; ++value) {
      ring.Take(room.stages);
      if (lane == 0) ArriveExpecting(ring.full(), (end - first) * line_bytes);
      __syncwarp();
      const char* const lines =
          static_cast<const char*>(kv.data) + phase.layer_offset +
          static_cast<uint64_t>(value * kv.kv_heads + kv_head) * kv.page_tokens * line_bytes;
      const uint32_t last_page = (end - 1) / kv.page_tokens;
#pragma unroll 1
      for (uint32_t page = first / kv.page_tokens + lane; page <= last_page; page += 32) {
        const uint32_t page_begin = page * kv.page_tokens;
        const uint32_t begin = max(first, page_begin);
        const uint32_t count = min(end, page_begin + kv.page_tokens) - begin;
        BulkCopy(ring.memory() + (begin - first) * line_bytes,
                 lines + row.pages[page] * kv.page_bytes + (begin - page_begin) * line_bytes,
                 count * line_bytes, ring.full());
      }
      ring.Next();
    }
  }
}

// The warp that fetches the data that the block needs, in the order in which it is used, as far
// ahead as the ring has room.
__device__ inline void FetchAll(const ResidentStep& r, const ResidentLayout& room, char* shared) {
  RingWriter ring(room, shared);
  const RowOfStep row(r);
  uint32_t layers = 0;
  for (uint32_t p = 0; p < r.phase_count; ++p) {
    const ResidentPhase& phase = r.phases[p];
    if (phase.input == ResidentInput::kAttention) {
      FetchPiece(r, phase, row, room, ring);
    } else {
      // What a layer sends overwrites what was sent two layers ago, which all blocks have read when
      // they began the layer before. Nothing is computed before its weights are asked for.
      if (phase.begins_layer && layers++ > 1) {
        while (CountOf(r.counters) < (layers - 2) * gridDim.x) WaitALittle();
      }
      FetchNorm(r, phase, room, ring);
      FetchTiles(r, phase, room, ring);
    }
  }
}

}  // namespace pie::cuda
