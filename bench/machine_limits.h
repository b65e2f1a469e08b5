// What this machine can do at most, measured: the two limits that a forward pass runs into. Figures
// of a kernel mean little without them, and they differ from one machine, and day, to the next.
#pragma once

#include <cstdint>

namespace pie {

// Bytes a second that `threads` threads read together from memory that does not fit the caches, in
// huge pages where the system gives them: what decoding one sequence is bound by. Takes about half
// a second.
double MeasureReadBandwidth(unsigned threads);

// Multiplications and additions of bytes a second in registers, with the best instructions that the
// kernels would use here: what a long prefill is bound by. About half a second. 0 below AVX2.
double MeasureInt8Peak(unsigned threads);

}  // namespace pie
