#include "backend/cpu/attention/kv_layer.h"

#include "backend/cpu/machine/simd.h"
#include "base/result.h"

namespace pie::cpu {
namespace {

// Stores in [n] to out, `stride` numbers apart.
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

void WriteBytes(CpuLevel level, const KvLayer& kv, PageId page, uint32_t slot, const float* keys,
                const float* values) {
  const size_t dim = kv.head_dim;
  for (uint32_t head = 0; head < kv.kv_heads; ++head) {
    QuantizeKv(level, keys + head * dim, kv.head_dim, kv.ByteKeys(page, head) + slot,
               kv.page_tokens, kv.KeyScales(page, head) + slot, kv.page_tokens);
    QuantizeKv(level, values + head * dim, kv.head_dim, kv.ByteValues(page, head) + slot * dim, 1,
               kv.ValueScales(page, head) + size_t{slot} * KvScales(kv.head_dim), 1);
  }
}

}  // namespace

std::string_view NameOf(KvType type) {
  return type == KvType::kF16 ? "f16" : "q8";
}

std::optional<KvType> ParseKvType(std::string_view name) {
  if (name == "f16") return KvType::kF16;
  if (name == "q8" || name == "q8_0" || name == "int8") return KvType::kQ8;
  return std::nullopt;
}

void WriteKv(CpuLevel level, const KvLayer& kv, PageId page, uint32_t slot, const float* keys,
             const float* values) {
  PIE_CHECK(slot < kv.page_tokens);
  if (kv.type == KvType::kQ8) return WriteBytes(level, kv, page, slot, keys, values);
  const auto store = level >= CpuLevel::kAvx2 ? StoreF16c : StoreScalar;
  for (uint32_t head = 0; head < kv.kv_heads; ++head) {
    const size_t from = size_t{head} * kv.head_dim;
    store(keys + from, kv.head_dim, kv.Keys(page, head) + slot, kv.page_tokens);
    store(values + from, kv.head_dim, kv.Values(page, head) + size_t{slot} * kv.head_dim, 1);
  }
}

}  // namespace pie::cpu
