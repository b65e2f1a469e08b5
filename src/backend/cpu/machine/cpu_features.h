// CpuLevel: the instructions that kernels may use. Every kernel takes a level, so that a test can
// run all of its variants on one machine; the engine passes DetectCpuLevel() everywhere.
//
// A level includes all lower ones, except kAvxVnni, which higher levels do not include. A kernel
// without a variant for a level uses the next lower one. kScalar is plain C++ for any x86-64: slow,
// and the reference for the other levels.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace pie::cpu {

enum class CpuLevel : uint8_t {
  kScalar,
  kAvx2,        // AVX2, FMA, F16C
  kAvxVnni,     // dot products of bytes in AVX2 registers; higher levels do not include it
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Vnni,  // dot products of bytes
  kAvx512Bf16,  // dot products of bfloat16
  kAmxBf16,     // AMX: tiles of bfloat16
};

std::string_view NameOf(CpuLevel level);

// Returns the best level of this processor and operating system. Cheap. The first call requests
// permission to use AMX tiles from the operating system, for the whole process.
CpuLevel DetectCpuLevel();

// Returns the levels that this processor supports, from kScalar up, for tests and benchmarks.
std::vector<CpuLevel> SupportedCpuLevels();

}  // namespace pie::cpu
