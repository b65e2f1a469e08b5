// Zeroth-order tuning of adapters: noise from seeds, and the update that scores give.
//
// A candidate is the adapter with B replaced by B + σ·E(s) in every matrix. E(s) = ±u·vᵀ has rank
// one: u and v are vectors of signs that the seed s, the layer and the slot determine, so noise
// is never stored, costs about as much as a bias, and is the same bit for bit on every device. The
// entries of E are ±1, have the mean 0, and are uncorrelated. E(-s) = -E(s): the seeds s and -s are
// an antithetic pair. Seed 0 has no noise.
//
//   k   = Mix(|s|, layer, slot)            (Mix of base/random.h, AdapterSlot of adapter.h)
//   u_i = bit i mod 64 of Mix(k, i / 64), 1 → +1, 0 → -1        i: row of B
//   v_j = bit j mod 64 of Mix(k, 2^32 + j / 64), likewise       j: column of B
//
// Everything here is a function of its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "model/adapter/adapter.h"

namespace pie {

// The noise of one matrix.
struct ZoNoise {
  static constexpr uint64_t kColumns = uint64_t{1} << 32;

  ZoNoise(int64_t seed, uint32_t layer, uint32_t slot)
      : sign(seed < 0 ? -1.0F : 1.0F),
        key(Mix(seed < 0 ? -static_cast<uint64_t>(seed) : static_cast<uint64_t>(seed), layer,
                slot)) {}
  ZoNoise(int64_t seed, uint32_t layer, AdapterTarget target)
      : ZoNoise(seed, layer, AdapterSlot(target)) {}

  // The signs of rows [64 × word, 64 × word + 64), and of columns: a set bit is +1.
  uint64_t Rows(uint64_t word) const { return Mix(key, word); }
  uint64_t Columns(uint64_t word) const { return Mix(key, kColumns + word); }

  float sign;  // of the whole
  uint64_t key;
};

// How an adapter is tuned. A plain value that is kept with the adapter.
struct ZoState {
  uint32_t population = 0;  // candidates of a generation; 0: the adapter is not being tuned
  float mu_fraction = 0;    // the share of them that an update follows
  float initial_sigma = 0;
  float sigma = 0;            // the size of the noise now
  float success = 0;          // smoothed; from -1 to 1
  uint64_t generations = 0;   // updates so far
  std::vector<float> scores;  // of the last generation
};

Result<ZoState> StartZo(uint32_t population, float mu_fraction, float initial_sigma);

// The weight of each candidate in an update: log-rank weights of the best μ = max(1, ⌊population ×
// mu_fraction⌋), which sum up to 1. Candidates of equal scores share their weights evenly.
std::vector<double> ZoWeights(std::span<const float> scores, float mu_fraction);

// Moves the adapter by one generation: B += σ·Σ wᵢ·E(sᵢ), and adapts σ by the median success rule:
//
//   K = candidates that are better than the median of the last generation (equal ones count half)
//   z = 2·K / population - 1;   success = 0.7·success + 0.3·z
//   σ = σ·exp(success / 4), at least initial_sigma / 16, at most max_sigma
//
// The first generation leaves σ as it is, unless it is above max_sigma. Fails on scores or seeds of
// the wrong number, and on scores that are not finite; then nothing has changed. Costs μ passes
// over B, which may take hours: before each pass over a matrix it asks `stopped`, and fails with
// kCancelled, with a part of the update done, when the answer is yes.
Status UpdateZo(std::span<const float> scores, std::span<const int64_t> seeds, float max_sigma,
                ZoState& state, AdapterWeights& weights,
                const std::function<bool()>& stopped = nullptr);

}  // namespace pie
