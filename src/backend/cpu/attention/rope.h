// Rotary position embedding: pairs of a head's numbers are turned by position × frequency.
//
// The angles of a position are the same for all heads and layers: compute them once a row and batch
// (Angles, in double: exact to float at any position), then apply them to queries and keys of each
// layer. RopeTable is immutable; any thread may use it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/machine/cpu_features.h"

namespace pie::cpu {

enum class RopeStyle : uint8_t {
  kNeox,         // pairs (i, i + dims / 2)
  kInterleaved,  // pairs (2i, 2i + 1): llama models in GGUF files
};

class RopeTable {
 public:
  // frequency[i] = base^(-2i / dims) / factors[i]. `dims` is even, at most the head's size; numbers
  // beyond it stay as they are. `factors` is empty or [dims / 2] (Llama 3's rope_freqs).
  RopeTable(RopeStyle style, uint32_t dims, double base, std::span<const float> factors = {});

  RopeStyle style() const { return style_; }
  uint32_t dims() const { return dims_; }
  std::span<const double> frequencies() const { return frequencies_; }  // [dims / 2]

  // cos and sin of a position's angles, [dims / 2] each.
  void Angles(uint32_t position, std::span<float> cos, std::span<float> sin) const;

  // Turns `heads` heads in place, `head_size` numbers apart. cos and sin as Angles gave them.
  void Apply(CpuLevel level, const float* cos, const float* sin, float* x, uint32_t heads,
             uint32_t head_size) const;

 private:
  RopeStyle style_;
  uint32_t dims_;
  std::vector<double> frequencies_;
};

}  // namespace pie::cpu
