// Inside of attention: pages of bytes for kernels that read halves. Not for other files.
#pragma once

#include "backend/cpu/attention/attention_kernels.h"

namespace pie::cpu::attention {

using Kernel = void (*)(const Span& span, const Partial& out);

// Runs the kernel block by block, each unpacked before. A kernel takes what earlier blocks gave, so
// that is the same as a span of halves.
void RunUnpacked(CpuLevel level, const Span& span, Kernel kernel, const Partial& out);

}  // namespace pie::cpu::attention
