// A step of one row by one kernel, which stays on all multiprocessors from the first layer to the
// logits. Between the kernels of an ordinary step, the memory has nothing to do; here, one warp of
// each block asks for the weights of later products while the others wait for a result that all of
// them need. It serves dense models; a step with several rows, experts or adapters takes the
// kernels of product.h and attention.h.
//
// The work is a list of phases, which is made once for a model. Blocks hand each other numbers by
// mail: a number and the phase that wrote it are one word of 8 bytes, so a reader needs nothing but
// that word. Blocks wait for one another, so all must run at the same time: the launch is
// cooperative.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernels/layer.h"
#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/runtime.h"
#include "backend/cuda/kernels/step.h"

namespace pie::cuda {

// The work of a phase before its products, in every block.
enum class ResidentInput : uint8_t {
  kSame,       // nothing: the input is that of the phase before
  kNormed,     // x += post_norm(delta + bias); the input is norm(x)
  kCopied,     // the input is a row of bfloat16 that earlier phases wrote
  kAttention,  // no products: this phase rotates, writes keys and values, and attends
};

// A number, and in the upper half the phase that wrote it: 1 + its place in the list, beyond those
// of all earlier steps.
using Mail = uint64_t;

struct alignas(16) ResidentPhase {
  ResidentInput input = ResidentInput::kSame;
  bool begins_layer = false;
  ProductOutput output = ProductOutput::kFloat;  // kFloat or kGated
  GateKind gate = GateKind::kSilu;
  WeightKind kind = WeightKind::kBf16;
  uint32_t n = 0;
  uint32_t k = 0;
  const void* w = nullptr;
  const void* scales = nullptr;
  Mail* y = nullptr;           // [n] float, or with a gate [n / 4] pairs of bfloat16
  float* last = nullptr;       // if set, the results go here, [n] float, instead of y
  const Mail* read = nullptr;  // kNormed: delta, [hidden] float, or null: x stays
                               // kCopied: [k / 2] pairs of bfloat16; kAttention: q, k and v
  uint32_t from = 0;           // how many phases ago that was written
  uint32_t after = 0;          // its letters are those of the phase this many before it
  // kNormed
  const float* bias = nullptr;
  const float* post_norm = nullptr;
  const float* norm = nullptr;
  float* x_out = nullptr;  // where x is written, or null
  // kAttention
  Mail* parts = nullptr;        // [splits, heads, head_stride] float
  Mail* part_scales = nullptr;  // [splits, heads, 2] float: the best score, the sum of weights
  Mail* attended = nullptr;     // [heads × head_stride / 2] pairs of bfloat16
  uint64_t layer_offset = 0;
  const float* qkv_bias = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* sinks = nullptr;
  uint32_t window = 0;
  uint32_t table = 0;  // of angles
};

// The kinds of a model's matrices.
enum class ResidentWeights : uint8_t {
  kBf16,
  kFp8,  // or bfloat16
  kAny,
};

struct ResidentStep {
  const StepHeader* step = nullptr;
  const ResidentPhase* phases = nullptr;  // on the device
  uint32_t phase_count = 0;
  const float* x = nullptr;  // [hidden]: the embedding
  uint32_t hidden = 0;
  uint32_t widest_input = 0;  // the largest k
  float epsilon = 0;
  // Attention.
  KvShape kv;
  uint32_t heads = 0;
  uint32_t head_size = 0;
  const float* cosines = nullptr;  // [tables, pairs]
  const float* sines = nullptr;
  uint32_t pairs = 0;
  uint32_t tables = 1;
  bool neighbours = false;
  float scale = 0;
  float softcap = 0;
  uint32_t splits = 0;  // pieces of a key head's keys
  ResidentWeights weights = ResidentWeights::kAny;
  // There are no biases, norms after a layer, sinks, caps or rotated neighbours, and heads have at
  // most 128 numbers.
  bool plain = false;
  // Zero before the first launch: how often blocks have begun a layer in this step, blocks that
  // have left, and steps before this one.
  uint32_t* counters = nullptr;
};

inline constexpr uint32_t kMostResidentGroup = 8;  // query heads of a key head

// The pieces that attention's keys are cut into, on the current device.
uint32_t ResidentSplits(uint32_t kv_heads);
// Whether the current device can run such a step: all blocks at a time, with the memory they need.
bool CanRunResident(const ResidentStep& step);
void RunResidentStep(const ResidentStep& step, Stream stream);

}  // namespace pie::cuda
