// How positions turn queries and keys. Every way of stretching a model's context comes down to one
// factor a frequency, worked out when the model is read, so that a backend needs one formula:
//   angle of pair i at position p = p × theta^(-2i / dims) / factors[i]
// with cos and sin multiplied by attention_factor.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace pie {

struct RopeConfig {
  enum class Scaling { kNone, kLinear, kLlama3, kYarn, kLongRope };
  enum class Pairing {
    kHalves,      // pair i is (i, i + dims / 2)
    kNeighbours,  // pair i is (2i, 2i + 1): GGUF's llama, whose rows were reordered for it
  };

  double theta = 10'000;
  uint32_t dims = 0;  // of each head, from its front; the rest is not turned
  Pairing pairing = Pairing::kHalves;
  Scaling scaling = Scaling::kNone;
  float attention_factor = 1;
  std::vector<float> factors;       // [dims / 2], empty for all ones
  std::vector<float> long_factors;  // LongRope, for sequences longer than original_context
  uint32_t original_context = 0;    // what the model was trained on before it was stretched
  // Layers with a sliding window turn by this theta instead, without factors. 0: as all layers do.
  double sliding_theta = 0;
};

// Of a theta and dims: each gives dims / 2 factors.
std::vector<float> LinearFactors(const RopeConfig& rope, double factor);
// Long wavelengths are stretched, short ones kept, with a ramp between.
std::vector<float> Llama3Factors(const RopeConfig& rope, double factor, double low_frequency,
                                 double high_frequency);
// The same by how often a pair turns within original_context. `whole_pairs` rounds the ramp's ends.
std::vector<float> YarnFactors(const RopeConfig& rope, double factor, double beta_fast,
                               double beta_slow, bool whole_pairs);
double YarnAttentionFactor(double factor, double multiplier = 1);
double LongRopeAttentionFactor(double factor, uint32_t original_context);

// All but dims, which CheckSizes (config_family.h) has looked at before factors were made.
Status ValidateRope(const RopeConfig& rope);

}  // namespace pie
