// CpuLevel: which instructions the kernels may use. Every kernel takes a level, so that a test can
// run each of them on one machine; the engine passes DetectCpuLevel() everywhere.
//
// A level contains all below it, but for kAvxVnni, and kernels that have nothing better for a level
// use the next one down. kScalar is plain C++ for any x86-64: slow, and the reference for the
// others.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace pie::cpu {

enum class CpuLevel : uint8_t {
  kScalar,
  kAvx2,        // AVX2, FMA, F16C
  kAvxVnni,     // dot products of bytes in the registers of AVX2; no part of what is above
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Vnni,  // dot products of bytes
  kAvx512Bf16,  // dot products of bfloat16
  kAmxBf16,     // AMX: tiles of bfloat16
};

std::string_view NameOf(CpuLevel level);

// The best level of this processor and operating system. Cheap. The first call asks the operating
// system for the tiles of AMX, for the whole process.
CpuLevel DetectCpuLevel();

// kScalar up to DetectCpuLevel(), those that this processor has, for tests and benchmarks.
std::vector<CpuLevel> SupportedCpuLevels();

}  // namespace pie::cpu
