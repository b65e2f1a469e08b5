// The part of CUDA's header of this name that the kernels use, for the emulator: descriptions of
// matrices for copies of boxes.
#pragma once

#include <cstdint>

using CUresult = int;
inline constexpr CUresult CUDA_SUCCESS = 0;
inline constexpr CUresult CUDA_ERROR_INVALID_VALUE = 1;
using cuuint32_t = uint32_t;
using cuuint64_t = uint64_t;
enum CUtensorMapDataType { CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_UINT64 };
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_256B };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };

struct alignas(64) CUtensorMap {  // of a matrix
  const char* data;
  uint64_t rows;
  uint64_t columns;
  uint64_t row_bytes;
  uint32_t box_rows;
  uint32_t box_columns;
  uint32_t number_bytes;
  uint32_t is_permuted;
  uint64_t unused[10];
};
