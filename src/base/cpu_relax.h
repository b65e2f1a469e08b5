// CpuRelax: tells the processor that this thread spins, so that it takes less from others.
#pragma once

namespace pie {

inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace pie
