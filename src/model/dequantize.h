// Stored numbers → float, one at a time, in plain code: the oracle that every faster kernel is
// measured against, and good enough for small tensors. The results are those of the format's
// definition with every product and sum rounded to float, in the order written there.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "model/dtype.h"

namespace pie {

// F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K … Q6_K, IQ4_NL, IQ4_XS, MXFP4.
bool CanDequantize(DType dtype);

// `data` holds whole blocks, `out` has room for exactly their numbers; otherwise, or for a type
// that cannot be dequantised, an error. `data` needs no alignment.
Status Dequantize(DType dtype, std::span<const std::byte> data, std::span<float> out);

}  // namespace pie
