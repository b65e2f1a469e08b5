// Sampling on the device: chooses tokens from rows of logits as backend/sampling.h defines it, and
// computes log-probabilities and entropies.
//
// Weights are whole numbers, exp((logit - best) / temperature) × 2^40 rounded, so that sums are
// exact in any order: the same logits give the same token whatever else runs. Nothing is sorted: a
// token is found by selecting on the bits of the logits. The likeliest tokens are collected first,
// and nearly always suffice.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/runtime.h"
#include "backend/cuda/kernels/step.h"

namespace pie::cuda {

struct SamplingOutput {
  uint32_t* tokens = nullptr;  // pinned: [slots]; kNone where the mask allows no token
  float* values = nullptr;     // pinned: log-probabilities and entropies
};

struct SamplingInputs {
  const StepHeader* step = nullptr;
  const float* logits = nullptr;  // [reads, stride]
  uint64_t stride = 0;
  uint32_t vocab = 0;
  uint32_t first_read = 0;  // the row that logits begin with
  uint32_t* chosen = nullptr;
  SamplingOutput outputs[4];  // by step->output
};

// Samples [first, first + count) of the step; count kNone: all of them, by `blocks` blocks.
void RunSamples(const SamplingInputs& sampling, uint32_t first, uint32_t count, uint32_t blocks,
                Stream stream);
void RunProbes(const SamplingInputs& sampling, uint32_t first, uint32_t count, Stream stream);

}  // namespace pie::cuda
