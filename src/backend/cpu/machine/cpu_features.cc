#include "backend/cpu/machine/cpu_features.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace pie::cpu {
namespace {

bool HasAvxVnni() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avxvnni");
}

// The operating system saves the tiles (8 KiB) only for processes that request them.
bool AskForTiles() {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  constexpr uint32_t kBf16 = 1U << 22;
  constexpr uint32_t kTiles = 1U << 24;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kBf16) == 0 || (edx & kTiles) == 0) return false;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool HasTiles() {
  static const bool has = AskForTiles();
  return has;
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
    case CpuLevel::kAmxBf16:
      return "amx-bf16";
  }
  return "unknown";
}

CpuLevel DetectCpuLevel() {
  // These functions also check that the operating system saves the registers.
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
  return HasTiles() ? CpuLevel::kAmxBf16 : CpuLevel::kAvx512Bf16;
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
