// Conversion of many numbers to 16-bit floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/machine/cpu_features.h"

namespace pie::cpu {

// Stores in [n] as IEEE binary16, rounded to nearest even, `stride` numbers of `out` apart. All
// instruction sets give the same numbers.
void StoreHalves(CpuLevel level, const float* in, uint32_t n, uint16_t* out, size_t stride = 1);

}  // namespace pie::cpu
