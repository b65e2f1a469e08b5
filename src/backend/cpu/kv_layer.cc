#include "backend/cpu/kv_layer.h"

#include "backend/cpu/simd.h"
#include "base/result.h"

namespace pie::cpu {
namespace {

// in [n] → out, `stride` numbers apart.
void StoreScalar(const float* in, uint32_t n, uint16_t* out, size_t stride) {
  for (uint32_t i = 0; i < n; ++i) out[i * stride] = FloatToHalf(in[i]);
}

PIE_AVX2 void StoreF16c(const float* in, uint32_t n, uint16_t* out, size_t stride) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i eight = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    if (stride == 1) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), eight);
      continue;
    }
    uint16_t each[8];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(each), eight);
    PIE_UNROLL
    for (int j = 0; j < 8; ++j) out[(i + j) * stride] = each[j];
  }
  StoreScalar(in + i, n - i, out + i * stride, stride);
}

}  // namespace

void WriteKv(CpuLevel level, const KvLayer& kv, PageId page, uint32_t slot, const float* keys,
             const float* values) {
  PIE_CHECK(slot < kv.page_tokens);
  const auto store = level >= CpuLevel::kAvx2 ? StoreF16c : StoreScalar;
  for (uint32_t head = 0; head < kv.kv_heads; ++head) {
    const size_t from = size_t{head} * kv.head_dim;
    store(keys + from, kv.head_dim, kv.Keys(page, head) + slot, kv.page_tokens);
    store(values + from, kv.head_dim, kv.Values(page, head) + size_t{slot} * kv.head_dim, 1);
  }
}

}  // namespace pie::cpu
