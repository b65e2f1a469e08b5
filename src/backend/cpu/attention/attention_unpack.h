// Internal to attention: unpacks pages of bytes for kernels that read pages of halves.
#pragma once

#include "backend/cpu/attention/attention_kernels.h"

namespace pie::cpu::attention {

using Kernel = void (*)(const Span& span, const Partial& out);

// Runs the kernel block by block and unpacks each block before. The kernel continues from the
// result of earlier blocks, so the result is the same as for pages of halves.
void RunUnpacked(CpuLevel level, const Span& span, Kernel kernel, const Partial& out);

}  // namespace pie::cpu::attention
