// Measures the two limits of this machine that bound a forward pass. The speed of a kernel is
// compared with them, because machines differ, and one machine differs from day to day.
#pragma once

#include <cstdint>

namespace pie {

// Bytes per second that `threads` threads together read from memory that does not fit the caches,
// in huge pages if the system has them. This bounds the decoding of one sequence. Takes half a
// second.
double MeasureReadBandwidth(unsigned threads);

// Multiplications and additions of bytes per second in registers, with the best instructions that
// the kernels use here. This bounds a long prefill. Takes half a second. Returns 0 without AVX2.
double MeasureInt8Peak(unsigned threads);

}  // namespace pie
