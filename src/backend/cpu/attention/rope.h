// Rotary position embedding: each pair of a head's numbers is rotated by position × frequency.
//
// The angles of a position are the same for all heads and layers. Compute them once per row of a
// batch (Angles; in double, so exact to float at any position), then apply them to the queries and
// keys of each layer. RopeTable is immutable; any thread may use it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/machine/cpu_features.h"
#include "model/rope.h"

namespace pie::cpu {

class RopeTable {
 public:
  using Pairing = RopeConfig::Pairing;

  // `dims` is even and at most the head's size; the numbers of a head beyond it stay as they are.
  // `base` and `factors` give the frequencies (RopeFrequencies).
  RopeTable(Pairing pairing, uint32_t dims, double base, std::span<const float> factors = {});

  std::span<const double> frequencies() const { return frequencies_; }  // [dims / 2]

  // Computes cos and sin of a position's angles, [dims / 2] each.
  void Angles(uint32_t position, std::span<float> cos, std::span<float> sin) const;

  // Rotates `heads` heads in place, `head_size` numbers apart, by the cos and sin of Angles.
  void Apply(CpuLevel level, const float* cos, const float* sin, float* x, uint32_t heads,
             uint32_t head_size) const;

 private:
  Pairing pairing_;
  uint32_t dims_;
  std::vector<double> frequencies_;
};

}  // namespace pie::cpu
