// Dequantisation to float in plain code, one number at a time: the reference for every faster
// kernel, and fast enough for small tensors. Results follow the format's definition, with every
// product and sum rounded to float in the order written there.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "model/dtype.h"

namespace pie {

// True for F32, F16, BF16, F8_E4M3 (without its scales), Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K … Q6_K,
// IQ4_NL, IQ4_XS and MXFP4.
bool CanDequantize(DType dtype);

// Fails unless `data` holds whole blocks, `out` has exactly as many elements as they do, and the
// type can be dequantised. `data` needs no alignment.
Status Dequantize(DType dtype, std::span<const std::byte> data, std::span<float> out);

}  // namespace pie
