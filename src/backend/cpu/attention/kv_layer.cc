#include "backend/cpu/attention/kv_layer.h"

#include "backend/cpu/machine/halves.h"
#include "base/result.h"

namespace pie::cpu {
namespace {

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
  for (uint32_t head = 0; head < kv.kv_heads; ++head) {
    const size_t from = size_t{head} * kv.head_dim;
    StoreHalves(level, keys + from, kv.head_dim, kv.Keys(page, head) + slot, kv.page_tokens);
    StoreHalves(level, values + from, kv.head_dim,
                kv.Values(page, head) + size_t{slot} * kv.head_dim);
  }
}

}  // namespace pie::cpu
