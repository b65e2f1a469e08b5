// Random weights, for measurements.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/runtime.h"

namespace pie::cuda {

// Fills bfloat16 numbers that are uniform in [-range, range).
void FillRandom(void* numbers, uint64_t count, uint32_t seed, float range, Stream stream);

// Fills a packed matrix in fp8 (packed.h) with numbers that are about uniform in [-range, range).
void FillRandomFp8(void* bytes, uint64_t count, float* scales, uint64_t scale_count, uint32_t seed,
                   float range, Stream stream);

// Reads `bytes` of memory (a multiple of 16) by streaming loads, and writes nothing: the roof of
// every kernel that is limited by memory.
void ReadAll(const void* memory, uint64_t bytes, uint32_t* sink, Stream stream);

}  // namespace pie::cuda
