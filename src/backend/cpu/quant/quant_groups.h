// Blocks of model files as integers in groups of 16, from which matrices are repacked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/quant/panel_format.h"
#include "model/dtype.h"

namespace pie::cpu {

// One block of a file: up to 256 numbers, each scale × q + min of its group, or scale × steps[q] if
// the format has steps.
struct QuantGroups {
  uint8_t q[256];
  float scale[16];
  float min[16];
};

// Reads the block at `in`. Supports kQ5_0, kQ5_1, kQ2_K … kQ6_K, kIQ4_NL, kIQ4_XS and kMXFP4.
void ReadGroups(DType dtype, const std::byte* in, QuantGroups& out);

}  // namespace pie::cpu
