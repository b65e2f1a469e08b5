// The small kernels of a layer: embedding, residual and norm, rotary embedding with the write of
// keys and values, and the activation after a large product. `rows` is the number of rows of the
// launch. It may exceed the rows of the step (a graph's bucket); the results of the extra rows are
// not read.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/runtime.h"
#include "backend/cuda/kernels/step.h"

namespace pie::cuda {

// How keys and values lie in a page: [layer][keys, values][kv_heads][page_tokens], each a line of
// head_stride numbers.
//
// In fp8, a line is padded to 16 bytes with zeros. After the lines of a layer come their scales,
// one byte each, in the same order: the values of a line are its numbers × 2^(byte - 247). With its
// scale, the largest number of a line lies between 128 and 256, so that all numbers have the
// precision of e4m3 down to 2^-13 of the largest. Four neighbouring numbers are stored in the order
// 0, 2, 1, 3.
struct KvShape {
  void* data = nullptr;
  uint64_t page_bytes = 0;
  uint64_t layer_offset = 0;  // bytes
  uint32_t page_tokens = 0;
  uint32_t page_shift = kNone;  // log2(page_tokens), if it is a power of two
  uint32_t kv_heads = 0;
  uint32_t head_stride = 0;  // numbers of a head, padding included; a multiple of 8
  bool fp8 = false;          // not bfloat16

  constexpr uint32_t line_bytes() const {
    return fp8 ? (head_stride + 15) / 16 * 16 : head_stride * 2;
  }
  constexpr uint64_t lines() const { return uint64_t{2} * kv_heads * page_tokens; }  // of a layer
  // Where the scales begin in a layer.
  constexpr uint64_t scales_at() const { return lines() * line_bytes(); }
  constexpr uint64_t layer_bytes() const {  // a multiple of 16
    return fp8 ? (scales_at() + lines() + 15) / 16 * 16 : scales_at();
  }
};

struct Embedding {
  const StepHeader* step = nullptr;
  const void* table = nullptr;  // [vocab, hidden] bfloat16 or packed
  WeightKind kind = WeightKind::kBf16;
  const void* scales = nullptr;  // of packed weights
  const uint32_t* chosen = nullptr;
  float* x = nullptr;  // [rows, hidden]
  uint32_t rows = 0;
  uint32_t hidden = 0;
  uint32_t vocab = 0;
  float scale = 1;
  // cos and sin of every row's angles: [tables, rows, pairs]
  const double* frequencies = nullptr;  // [tables, pairs]
  float* cosines = nullptr;
  float* sines = nullptr;
  uint32_t pairs = 0;
  uint32_t tables = 1;
  float attention_factor = 1;  // of the first table
};
void RunEmbedding(const Embedding& embedding, Stream stream);

// x += post_norm(delta + bias); h = norm(x). Null inputs are left out; without a norm, h is x.
struct Residual {
  float* x = nullptr;            // [rows, hidden]
  const float* delta = nullptr;  // [rows, hidden]
  const float* bias = nullptr;
  const float* post_norm = nullptr;
  const float* norm = nullptr;
  void* h = nullptr;  // [rows, hidden] bfloat16
  uint32_t rows = 0;
  uint32_t hidden = 0;
  float epsilon = 0;
  // If set: row i of h comes from row read_rows[first_read + i] of x, which stays as it is.
  const StepHeader* gather = nullptr;
  uint32_t first_read = 0;
};
void RunResidual(const Residual& residual, Stream stream);

// Adds biases, normalises and rotates the queries and keys of each row, writes its keys and values
// into their page, and its queries to q.
struct RotateWrite {
  const StepHeader* step = nullptr;
  const float* qkv = nullptr;   // [rows, (heads + 2 × kv_heads) × head_stride]
  const float* bias = nullptr;  // the same columns
  // [head_size] each, or one weight per number of all heads (norm_whole)
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* cosines = nullptr;  // [rows, pairs]
  const float* sines = nullptr;
  void* q = nullptr;  // [rows, heads × head_stride] bfloat16
  KvShape kv;
  uint32_t rows = 0;
  uint32_t heads = 0;
  uint32_t head_size = 0;
  uint32_t pairs = 0;
  bool neighbours = false;  // pair i is (2i, 2i + 1), not (i, i + pairs)
  bool norm_whole = false;
  float epsilon = 0;
};
void RunRotateWrite(const RotateWrite& rotate, Stream stream);

// out = activation(gate, up) of a product whose columns are in groups of 16, as kGated has them.
void RunGate(GateKind kind, const void* gate_up, void* out, uint32_t rows, uint32_t ffn,
             Stream stream);

// x → cap × tanh(x / cap)
void RunSoftCap(float* x, uint64_t count, float cap, Stream stream);

// Copies whole pages, in order.
void RunPageCopies(void* pages, uint64_t page_bytes, const uint32_t* from_to, uint32_t copies,
                   Stream stream);

// Tells the host that everything before has run: *done = step->ticket, in pinned memory.
void RunPublish(const StepHeader* step, uint64_t* done, Stream stream);

// Experts: chooses the `used` best of each row and their shares, and sorts (row, expert) pairs by
// expert into tiles. Pairs of row r are numbers r × used ….
struct Routing {
  const float* logits = nullptr;  // [rows, experts]
  uint32_t rows = 0;
  const StepHeader* step = nullptr;  // rows from step->rows on are left out
  uint32_t experts = 0;
  uint32_t used = 0;
  bool renormalize = true;
  uint32_t* chosen = nullptr;      // [rows, used]
  float* shares = nullptr;         // [rows, used]
  uint32_t* sorted_row = nullptr;  // [rows × used]: the row of each place in the sorted list
  uint32_t* place = nullptr;       // [rows, used]: the place of each pair
  ExpertTile* tiles = nullptr;
  uint32_t* tile_count = nullptr;
};
void RunRouting(const Routing& routing, Stream stream);

// out[row] = Σ shares × down[place]; row-wise.
void RunCombineExperts(const float* down, const uint32_t* place, const float* shares, float* out,
                       bool add, uint32_t rows, uint32_t used, uint32_t hidden,
                       const StepHeader* step, Stream stream);

}  // namespace pie::cuda
