#include "backend/cpu/matmul/split_rows.h"

#include "backend/cpu/machine/simd.h"

namespace pie::cpu {

void SplitRows::Resize(uint32_t new_rows, uint32_t new_columns) {
  rows = new_rows;
  columns = new_columns;
  const size_t size = (size_t{rows} + kTileRows - 1) * stride();
  if (values.size() < size) values.resize(size);
}

PIE_AVX512_BF16 void SplitRow(const float* x, SplitRows& out, uint32_t row) {
  uint16_t* const high = out.values.data() + row * out.stride();
  uint16_t* const low = high + out.columns;
  for (uint32_t i = 0; i < out.columns; i += 16) {
    const __m512 all = _mm512_loadu_ps(x + i);
    const __m256i first = FloatsToBf16(all);
    _mm256_store_si256(reinterpret_cast<__m256i*>(high + i), first);
    _mm256_store_si256(reinterpret_cast<__m256i*>(low + i),
                       FloatsToBf16(_mm512_sub_ps(all, Bf16ToFloats(first))));
  }
}

}  // namespace pie::cpu
