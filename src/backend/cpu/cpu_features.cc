#include "backend/cpu/cpu_features.h"

namespace pie::cpu {
namespace {

bool HasAvxVnni() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avxvnni");
}

}  // namespace

std::string_view NameOf(CpuLevel level) {
  switch (level) {
    case CpuLevel::kScalar:
      return "scalar";
    case CpuLevel::kAvx2:
      return "avx2";
    case CpuLevel::kAvxVnni:
      return "avx-vnni";
    case CpuLevel::kAvx512:
      return "avx512";
    case CpuLevel::kAvx512Vnni:
      return "avx512-vnni";
    case CpuLevel::kAvx512Bf16:
      return "avx512-bf16";
  }
  return "unknown";
}

CpuLevel DetectCpuLevel() {
  // These ask the operating system too: registers that it does not save are not reported.
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c")) {
    return CpuLevel::kScalar;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return HasAvxVnni() ? CpuLevel::kAvxVnni : CpuLevel::kAvx2;
  }
  if (!__builtin_cpu_supports("avx512vnni")) return CpuLevel::kAvx512;
  if (!__builtin_cpu_supports("avx512bf16")) return CpuLevel::kAvx512Vnni;
  return CpuLevel::kAvx512Bf16;
}

std::vector<CpuLevel> SupportedCpuLevels() {
  std::vector<CpuLevel> levels;
  for (uint8_t level = 0; level <= static_cast<uint8_t>(DetectCpuLevel()); ++level) {
    if (static_cast<CpuLevel>(level) == CpuLevel::kAvxVnni && !HasAvxVnni()) continue;
    levels.push_back(static_cast<CpuLevel>(level));
  }
  return levels;
}

}  // namespace pie::cpu
