#include "backend/cpu/attention_bf16_block.h"

#include <algorithm>
#include <bit>

namespace pie::cpu::attention {
namespace {

// What stands for the values of a key that nobody sees.
alignas(64) constexpr uint16_t kZeros[Attention::kMaxHeadDim] = {};

const uint16_t* ValuesOf(const Span& span, uint32_t first_key, uint32_t i, uint64_t any) {
  return (any >> i & 1) != 0 ? span.Find(first_key + i).values : kZeros;
}

// Sixteen keys of one page, or of many; what is past the sequence's end is anything.
PIE_AVX512_BF16 void LoadKeys(const Span& span, uint32_t key, uint32_t* to) {
  const uint32_t dim = span.kv->head_dim;
  const uint16_t* from = nullptr;
  size_t stride = 0;
  uint16_t gathered[Attention::kMaxHeadDim * 16];
  if (span.kv->page_tokens % 16 == 0) {
    from = span.Find(key).keys;
    stride = span.kv->page_tokens;
  } else {
    const uint32_t count = std::min(16U, span.end_key - key);
    for (uint32_t i = 0; i < 16; ++i) {
      const uint16_t* const one = span.Find(key + std::min(i, count - 1)).keys;
      for (uint32_t d = 0; d < dim; ++d) gathered[d * 16 + i] = one[d * span.kv->page_tokens];
    }
    from = gathered;
    stride = 16;
  }
  for (uint32_t d = 0; d < dim; d += 2) {
    const __m512 first = LoadHalf512(from + d * stride);
    const __m512 second = d + 1 < dim ? LoadHalf512(from + (d + 1) * stride) : _mm512_setzero_ps();
    _mm512_store_si512(to + size_t{d / 2} * kGroups * 16, PairUp(first, second));
  }
}

PIE_AVX512_BF16 void LoadValues(const uint16_t* first, const uint16_t* second, uint32_t dim,
                                uint32_t* to) {
  for (uint32_t d = 0; d < dim; d += 16) {
    const uint16_t mask = dim - d >= 16 ? 0xFFFF : LaneMask(dim - d);
    const __m512 a = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, first + d));
    const __m512 b = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, second + d));
    _mm512_store_si512(to + d, PairUp(a, b));
  }
}

}  // namespace

bool RawBlock::Fits(const KvLayer& kv) {
  return kv.page_tokens % 16 == 0 && kv.head_dim % 16 == 0;
}

void RawBlock::Find(const Span& span, uint32_t first_key, uint64_t any) {
  stride = span.kv->page_tokens;
  const size_t dim = span.kv->head_dim;
  for (uint32_t g = 0; g < kGroups; ++g) {
    const uint32_t key = first_key + 16 * g;
    const Span::Place next = span.Find(std::min(key + kBlock, span.end_key - 1));
    next_keys[g] = next.keys;
    next_values[g] = next.values;
    if (key >= span.end_key) continue;
    const auto seen = static_cast<uint16_t>(any >> (16 * g));
    const Span::Place place = span.Find(key);
    keys[g] = place.keys;
    for (uint32_t i = 0; i < 16; ++i) {
      values[16 * g + i] = (seen >> i & 1) != 0 ? place.values + i * dim : kZeros;
    }
  }
}

void PairBlock::Load(const Span& span, uint32_t first_key, uint64_t any) {
  const uint32_t dim = span.kv->head_dim;
  chunks = (dim + 15) / 16;
  const auto first_group = static_cast<uint32_t>(std::countr_zero(any)) / 16;
  const auto last_group = static_cast<uint32_t>(63 - std::countl_zero(any)) / 16;
  for (uint32_t g = first_group; g <= last_group; ++g) {
    LoadKeys(span, first_key + 16 * g, keys + size_t{g} * 16);
    for (uint32_t i = 16 * g; i < 16 * (g + 1); i += 2) {
      LoadValues(ValuesOf(span, first_key, i, any), ValuesOf(span, first_key, i + 1, any), dim,
                 values + size_t{i / 2} * chunks * 16);
    }
  }
}

}  // namespace pie::cpu::attention
