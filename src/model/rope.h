// Rotary position embedding (RoPE): how positions rotate queries and keys. Every method of
// extending a model's context reduces to one factor per frequency, computed when the model is read,
// so that a backend needs one formula:
//   angle of pair i at position p = p × theta^(-2i / dims) / factors[i]
// with cos and sin multiplied by attention_factor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace pie {

struct RopeConfig {
  enum class Scaling { kNone, kLinear, kLlama3, kYarn, kLongRope };
  enum class Pairing {
    kHalves,      // pair i is (i, i + dims / 2)
    kNeighbours,  // pair i is (2i, 2i + 1), as in GGUF's llama, whose rows are reordered for it
  };

  double theta = 10'000;
  uint32_t dims = 0;  // rotated dimensions at the front of each head; the rest stays as it is
  Pairing pairing = Pairing::kHalves;
  Scaling scaling = Scaling::kNone;
  float attention_factor = 1;
  std::vector<float> factors;       // [dims / 2]; empty: all ones
  std::vector<float> long_factors;  // LongRope: used for sequences longer than original_context
  uint32_t original_context = 0;    // context length before the extension
  // theta of layers with a sliding window, which use no factors. 0: the same as all layers.
  double sliding_theta = 0;
};

// The angles in radians by which the pairs rotate per position, [dims / 2]: base^(-2i / dims) /
// factors[i]. `factors` is empty or [dims / 2].
std::vector<double> RopeFrequencies(double base, uint32_t dims,
                                    std::span<const float> factors = {});

// Each function returns dims / 2 factors computed from rope.theta and rope.dims.
std::vector<float> LinearFactors(const RopeConfig& rope, double factor);
// Stretches long wavelengths and keeps short ones, with a ramp between them.
std::vector<float> Llama3Factors(const RopeConfig& rope, double factor, double low_frequency,
                                 double high_frequency);
// Ramps by how often a pair rotates within original_context. `whole_pairs` rounds the ends of the
// ramp.
std::vector<float> YarnFactors(const RopeConfig& rope, double factor, double beta_fast,
                               double beta_slow, bool whole_pairs);
double YarnAttentionFactor(double factor, double multiplier = 1);
double LongRopeAttentionFactor(double factor, uint32_t original_context);

// Replaces `factors` by `long_factors` where the model has them and sequences of up to `longest`
// tokens may exceed original_context. A backend calls it once for all sequences, because keys stay
// in pages that later and longer sequences share.
void ChooseFactors(uint64_t longest, RopeConfig& rope);

// Checks everything but dims, which CheckSizes (config_family.h) has checked before.
Status ValidateRope(const RopeConfig& rope);

}  // namespace pie
