// For tests: the noise of zeroth-order tuning as plain numbers, by its definition (zo.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/adapter/adapter.h"
#include "model/adapter/zo.h"

namespace pie {

// Adds the noise of a seed to every B of an adapter.
inline void WriteNoise(AdapterWeights& weights, int64_t seed, float sigma) {
  for (uint32_t layer = 0; layer < weights.layers.size(); ++layer) {
    for (uint32_t slot = 0; slot < weights.layers[layer].size(); ++slot) {
      LowRank& part = weights.layers[layer][slot];
      const ZoNoise noise(seed, layer, slot);
      for (size_t i = 0; i < part.b.size(); ++i) {
        const size_t row = i / part.rank;
        const size_t column = i % part.rank;
        const bool u = (noise.Rows(row / 64) >> (row % 64) & 1) != 0;
        const bool v = (noise.Columns(column / 64) >> (column % 64) & 1) != 0;
        part.b[i] += noise.sign * (u == v ? sigma : -sigma);
      }
    }
  }
}

}  // namespace pie
