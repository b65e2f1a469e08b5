#include <bit>
#include <cmath>

#include "backend/cpu/attention/attention_kernels.h"
#include "backend/cpu/machine/simd.h"

namespace pie::cpu::attention {
namespace {

// Up to 16 adjacent keys of one page.
struct KeyGroup {
  const uint16_t* keys;
  const uint16_t* next_keys;  // the keys one block later, to be prefetched
  const uint16_t* next_values;
  uint16_t mask;    // lanes that hold keys of this block
  uint32_t offset;  // index of the first key in the block
};

// One block of keys for all lines of a tile.
struct Block {
  uint64_t visible[kLines];
  uint64_t any;  // keys visible to some line
  KeyGroup groups[kBlock];
  uint32_t group_count = 0;
  const uint16_t* values[kBlock];
  // scores, then weights; padded because groups may store beyond the block
  alignas(64) float weights[kLines][kBlock + 16];
};

// Finds the keys and values of the next block, which are prefetched while this one is computed.
void PrepareNext(const Span& span, uint32_t first_key, Block& block) {
  for (uint32_t g = 0; g < block.group_count; ++g) {
    KeyGroup& group = block.groups[g];
    const auto [range, key] = span.Later(first_key, first_key + group.offset);
    const Span::Place place = range->Find(key);
    group.next_keys = place.keys;
    group.next_values = place.values;
  }
}

void Prepare(const Span& span, uint32_t first_key, Block& block) {
  block.any = 0;
  block.group_count = 0;
  for (uint32_t line = 0; line < span.lines; ++line) {
    block.visible[line] = span.Visible(line, first_key);
    block.any |= block.visible[line];
  }
  const uint32_t dim = span.kv->head_dim;
  const auto keys = static_cast<uint32_t>(kBlock - std::countl_zero(block.any));
  for (uint32_t i = 0; i < keys;) {
    const Span::Place place = span.Find(first_key + i);
    const uint32_t count = std::min({16U, span.kv->page_tokens - place.slot, keys - i});
    const uint16_t lanes = LaneMask(count);
    if ((block.any >> i & lanes) != 0) {
      block.groups[block.group_count++] = {place.keys, nullptr, nullptr, lanes, i};
    }
    for (uint32_t j = 0; j < count; ++j) block.values[i + j] = place.values + size_t{j} * dim;
    i += count;
  }
  PrepareNext(span, first_key, block);
}

// Scores kN lines × kGroups groups; each register holds the sums of 16 keys.
template <int kN, int kGroups>
PIE_AVX512 void Score(const Span& span, uint32_t line, const KeyGroup* groups, Block& block) {
  const uint32_t dim = span.kv->head_dim;
  const size_t stride = span.kv->page_tokens;
  const float* const q = span.q + size_t{line} * dim;
  __m512 sum[kN][kGroups];
  PIE_UNROLL
  for (int n = 0; n < kN; ++n) {
    PIE_UNROLL
    for (int g = 0; g < kGroups; ++g) sum[n][g] = _mm512_setzero_ps();
  }
  for (uint32_t d = 0; d < dim; ++d) {
    __m512 k[kGroups];
    PIE_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      if constexpr (kN <= 4) {  // few lines are bound by memory, so the values are prefetched too
        _mm_prefetch(groups[g].next_keys + d * stride, _MM_HINT_T0);
        _mm_prefetch(groups[g].next_values + d * 16, _MM_HINT_T0);
      }
      k[g] = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(groups[g].mask, groups[g].keys + d * stride));
    }
    PIE_UNROLL
    for (int n = 0; n < kN; ++n) {
      const __m512 x = _mm512_set1_ps(q[size_t(n) * dim + d]);
      PIE_UNROLL
      for (int g = 0; g < kGroups; ++g) sum[n][g] = _mm512_fmadd_ps(x, k[g], sum[n][g]);
    }
  }
  PIE_UNROLL
  for (int n = 0; n < kN; ++n) {
    PIE_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      _mm512_storeu_ps(block.weights[line + n] + groups[g].offset, sum[n][g]);
    }
  }
}

template <int kN>
void ScoreGroups(const Span& span, uint32_t line, Block& block) {
  uint32_t g = 0;
  constexpr int kWide = kN > 4 ? 2 : 4;
  for (; g + kWide <= block.group_count; g += kWide) {
    Score<kN, kWide>(span, line, block.groups + g, block);
  }
  for (; g < block.group_count; ++g) Score<kN, 1>(span, line, block.groups + g, block);
}

void ScoreLines(const Span& span, Block& block) {
  for (uint32_t line = 0; line < span.lines;) {
    const uint32_t left = span.lines - line;
    if (left >= 8) {
      ScoreGroups<8>(span, line, block);
      line += 8;
    } else if (left >= 4) {
      ScoreGroups<4>(span, line, block);
      line += 4;
    } else if (left == 3) {
      ScoreGroups<3>(span, line, block);
      line += 3;
    } else if (left == 2) {
      ScoreGroups<2>(span, line, block);
      line += 2;
    } else {
      ScoreGroups<1>(span, line, block);
      line += 1;
    }
  }
}

// Turns scores into weights relative to the new maximum and rescales the earlier result to it.
// Weights of keys that the line does not see are 0.
PIE_AVX512 void Weigh(const Span& span, uint32_t line, Block& block, const Partial& out) {
  const uint32_t dim = span.kv->head_dim;
  float* const weights = block.weights[line];
  const uint64_t visible = block.visible[line];
  __m512 s[4];
  __m512 high = _mm512_set1_ps(kNothing);
  PIE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const auto mask = static_cast<uint16_t>(visible >> (16 * i));
    s[i] = _mm512_mask_loadu_ps(_mm512_set1_ps(kNothing), mask, weights + 16 * i);
    if (span.softcap != 0) {
      const __m512 cap = _mm512_set1_ps(span.softcap);
      s[i] = _mm512_mask_mul_ps(s[i], mask, Tanh512(_mm512_div_ps(s[i], cap)), cap);
    }
    high = _mm512_max_ps(high, s[i]);
  }
  const float before = out.max[line];
  const float max = std::max(before, Max512(high));
  __m512 sum = _mm512_setzero_ps();
  PIE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const auto mask = static_cast<uint16_t>(visible >> (16 * i));
    const __m512 e = Exp512(_mm512_sub_ps(s[i], _mm512_set1_ps(max)));
    const __m512 weight = _mm512_maskz_mov_ps(mask, e);
    _mm512_storeu_ps(weights + 16 * i, weight);
    sum = _mm512_add_ps(sum, weight);
  }
  if (visible == 0) return;
  if (max > before) {
    const float keep = std::exp(before - max);
    out.max[line] = max;
    out.sum[line] *= keep;
    float* const values = out.values + size_t{line} * dim;
    for (uint32_t d = 0; d < dim; d += 16) {
      const uint16_t mask = dim - d >= 16 ? 0xFFFF : LaneMask(dim - d);
      const __m512 v = _mm512_maskz_loadu_ps(mask, values + d);
      Store512(values + d, mask, _mm512_mul_ps(v, _mm512_set1_ps(keep)));
    }
  }
  out.sum[line] += Sum512(sum);
}

// Adds the weighted values of the block for kN lines and 16 × kChunks dimensions.
template <int kN, int kChunks>
PIE_AVX512 void AddValues(const Block& block, uint32_t line, uint32_t first_dim, uint32_t dim,
                          const Partial& out) {
  // The mask of the last chunk; it has fewer than 16 lanes only if head_dim is not a multiple of
  // 16.
  const uint16_t mask =
      dim - first_dim >= 16 * kChunks ? 0xFFFF : LaneMask(dim - first_dim - 16 * (kChunks - 1));
  float* const to = out.values + size_t{line} * dim + first_dim;
  __m512 sum[kN][kChunks];
  PIE_UNROLL
  for (int n = 0; n < kN; ++n) {
    PIE_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const uint16_t lanes = c + 1 == kChunks ? mask : 0xFFFF;
      sum[n][c] = _mm512_maskz_loadu_ps(lanes, to + size_t(n) * dim + 16 * c);
    }
  }
  for (uint64_t left = block.any; left != 0; left &= left - 1) {
    const int key = std::countr_zero(left);
    const uint16_t* const value = block.values[key] + first_dim;
    __m512 v[kChunks];
    PIE_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const uint16_t lanes = c + 1 == kChunks ? mask : 0xFFFF;
      v[c] = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, value + 16 * c));
    }
    PIE_UNROLL
    for (int n = 0; n < kN; ++n) {
      const __m512 weight = _mm512_set1_ps(block.weights[line + n][key]);
      PIE_UNROLL
      for (int c = 0; c < kChunks; ++c) sum[n][c] = _mm512_fmadd_ps(weight, v[c], sum[n][c]);
    }
  }
  PIE_UNROLL
  for (int n = 0; n < kN; ++n) {
    PIE_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const uint16_t lanes = c + 1 == kChunks ? mask : 0xFFFF;
      Store512(to + size_t(n) * dim + 16 * c, lanes, sum[n][c]);
    }
  }
}

template <int kN>
void AddDims(const Block& block, uint32_t line, uint32_t dim, const Partial& out) {
  uint32_t d = 0;
  for (; d + 64 <= dim; d += 64) AddValues<kN, 4>(block, line, d, dim, out);
  for (; d < dim; d += 16) AddValues<kN, 1>(block, line, d, dim, out);
}

void AddLines(const Block& block, uint32_t lines, uint32_t dim, const Partial& out) {
  uint32_t line = 0;
  for (; line + 4 <= lines; line += 4) AddDims<4>(block, line, dim, out);
  switch (lines - line) {
    case 3:
      return AddDims<3>(block, line, dim, out);
    case 2:
      return AddDims<2>(block, line, dim, out);
    case 1:
      return AddDims<1>(block, line, dim, out);
    default:
      return;
  }
}

}  // namespace

void SpanAvx512(const Span& span, const Partial& out) {
  Block block;
  for (uint32_t key = span.begin_key; key < span.end_key; key += kBlock) {
    Prepare(span, key, block);
    if (block.any == 0) continue;
    ScoreLines(span, block);
    for (uint32_t line = 0; line < span.lines; ++line) {
      Weigh(span, line, block, out);
    }
    AddLines(block, span.lines, span.kv->head_dim, out);
  }
}

}  // namespace pie::cpu::attention
