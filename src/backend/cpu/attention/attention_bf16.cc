// Attention with products in bfloat16. A block of 64 keys is processed for 16 lines at a time,
// whose maxima and sums are the lanes of one register.
#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/cpu/attention/attention_bf16_block.h"
#include "backend/cpu/attention/attention_kernels.h"
#include "backend/cpu/machine/simd.h"

namespace pie::cpu::attention {
namespace {

constexpr uint32_t kLanes = 16;
constexpr uint32_t kRawLines = 4;  // with at most this many lines, pairs are not stored

// Lines `first` … first + count of a span, at one block.
struct Lines {
  uint32_t first;
  uint32_t count;
  const uint64_t* visible;                    // [count]
  uint32_t first_group, last_group;           // first and last group that some line sees
  const uint32_t (*q)[PairBlock::kMaxPairs];  // [count]
  alignas(64) float scores[kLanes][kBlock];
  alignas(64) uint32_t weights[kLanes][kBlock / 2];  // pairs
};

PIE_AVX512_BF16 __m512 Dot(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

// Packs q [lines, head_dim] into pairs of dimensions; an odd last dimension is paired with 0.
PIE_AVX512_BF16 void PackQueries(const Span& span, uint32_t (*out)[PairBlock::kMaxPairs]) {
  const uint32_t dim = span.kv->head_dim;
  for (uint32_t line = 0; line < span.lines; ++line) {
    const float* const q = span.q + size_t{line} * dim;
    for (uint32_t d = 0; d < dim; d += 32) {
      const uint32_t left = dim - d;
      const __m512 low = _mm512_maskz_loadu_ps(left >= 16 ? 0xFFFF : LaneMask(left), q + d);
      const uint16_t rest = left >= 32 ? 0xFFFF : left > 16 ? LaneMask(left - 16) : 0;
      const __m512 high = _mm512_maskz_loadu_ps(rest, q + d + 16);
      _mm512_storeu_si512(out[line] + d / 2,
                          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
    }
  }
}

// 2^x for x in (-126, 0] to a relative error of 1e-5, exact at 0. Smaller x give about 2^-126.
PIE_AVX512_BF16 __m512i Exp2(__m512 x) {
  const __m512 magic = _mm512_set1_ps(12582912);  // 1.5 × 2^23: the sum's low bits are an integer
  x = _mm512_max_ps(_mm512_set1_ps(-126), x);     // in this order of operands, NaN is kept
  const __m512 shifted = _mm512_add_ps(x, magic);
  const __m512 r = _mm512_sub_ps(x, _mm512_sub_ps(shifted, magic));
  __m512 p = _mm512_set1_ps(0.009656710F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.055838283F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.240225301F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693136734F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
  return _mm512_add_epi32(_mm512_castps_si512(p), exponent);
}

// Scores kN lines × kG groups, beginning with `group`.
template <int kN, int kG, class Block>
PIE_AVX512_BF16 void Score(const Block& block, uint32_t pairs, uint32_t line, uint32_t group,
                           Lines& lines) {
  __m512 sum[kN][kG];
  PIE_UNROLL
  for (int n = 0; n < kN; ++n) {
    PIE_UNROLL
    for (int g = 0; g < kG; ++g) sum[n][g] = _mm512_setzero_ps();
  }
  for (uint32_t pair = 0; pair < pairs; ++pair) {
    __m512i k[kG];
    PIE_UNROLL
    for (int g = 0; g < kG; ++g) k[g] = block.Keys(pair, group + g);
    PIE_UNROLL
    for (int n = 0; n < kN; ++n) {
      const __m512i q = _mm512_set1_epi32(static_cast<int>(lines.q[line + n][pair]));
      PIE_UNROLL
      for (int g = 0; g < kG; ++g) sum[n][g] = Dot(sum[n][g], q, k[g]);
    }
  }
  PIE_UNROLL
  for (int n = 0; n < kN; ++n) {
    PIE_UNROLL
    for (int g = 0; g < kG; ++g) {
      _mm512_store_ps(lines.scores[line + n] + 16 * (group + g), sum[n][g]);
    }
  }
}

template <int kN, class Block>
void ScoreGroups(const Block& block, uint32_t pairs, uint32_t line, Lines& lines) {
  const uint32_t first = lines.first_group;
  switch (lines.last_group - first) {
    case 0:
      return Score<kN, 1>(block, pairs, line, first, lines);
    case 1:
      return Score<kN, 2>(block, pairs, line, first, lines);
    case 2:
      return Score<kN, 3>(block, pairs, line, first, lines);
    default:
      return Score<kN, 4>(block, pairs, line, first, lines);
  }
}

PIE_AVX512_BF16 __m512 CappedScores(const Lines& lines, uint32_t line, uint32_t group, float cap) {
  const __m512 s = _mm512_load_ps(lines.scores[line] + 16 * group);
  if (cap == 0) return s;
  return _mm512_mul_ps(Tanh512(_mm512_div_ps(s, _mm512_set1_ps(cap))), _mm512_set1_ps(cap));
}

uint16_t GroupOf(uint64_t visible, uint32_t group) {
  return static_cast<uint16_t>(visible >> (16 * group));
}

// Reduces each vector to one number; lane i of the result is that of vector i. All are reduced in
// the same order.
template <class Join>
PIE_AVX512_BF16 __m512 Across(__m512 (&v)[kLanes], Join join) {
  PIE_UNROLL
  for (int i = 0; i < 16; i += 2) {
    v[i] = join(_mm512_unpacklo_ps(v[i], v[i + 1]), _mm512_unpackhi_ps(v[i], v[i + 1]));
  }
  PIE_UNROLL
  for (int i = 0; i < 16; i += 4) {
    const __m512d a = _mm512_castps_pd(v[i]);
    const __m512d b = _mm512_castps_pd(v[i + 2]);
    v[i] = join(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  PIE_UNROLL
  for (int i = 0; i < 16; i += 8) {
    v[i] = join(_mm512_shuffle_f32x4(v[i], v[i + 4], 0x88),
                _mm512_shuffle_f32x4(v[i], v[i + 4], 0xDD));
  }
  return join(_mm512_shuffle_f32x4(v[0], v[8], 0x88), _mm512_shuffle_f32x4(v[0], v[8], 0xDD));
}

struct Greater {
  PIE_AVX512_BF16 __m512 operator()(__m512 a, __m512 b) const { return _mm512_max_ps(a, b); }
};
struct Plus {
  PIE_AVX512_BF16 __m512 operator()(__m512 a, __m512 b) const { return _mm512_add_ps(a, b); }
};

// Caps the scores of a block and returns the greatest score that each line sees.
PIE_AVX512_BF16 __m512 Greatest(float softcap, Lines& lines) {
  __m512 high[kLanes];
  for (uint32_t line = 0; line < kLanes; ++line) {
    high[line] = _mm512_set1_ps(kNothing);
    if (line >= lines.count) continue;
    for (uint32_t g = lines.first_group; g <= lines.last_group; ++g) {
      const __m512 s = CappedScores(lines, line, g, softcap);
      if (softcap != 0) _mm512_store_ps(lines.scores[line] + 16 * g, s);
      const uint16_t mask = GroupOf(lines.visible[line], g);
      high[line] = _mm512_mask_max_ps(high[line], mask, high[line], s);
    }
  }
  return Across(high, Greater{});
}

// Turns the scores of a line into weights 2^(score × log2 e - shift), 0 for keys that it does not
// see. Returns the sums of the rounded weights, lane by lane.
PIE_AVX512_BF16 __m512 Weigh(float shift, uint32_t line, Lines& lines) {
  const __m512i ones = _mm512_set1_epi32(0x3F803F80);
  __m512 sum = _mm512_setzero_ps();
  // Groups are processed in pairs. A group that was not scored has no visible key.
  for (uint32_t g = lines.first_group & ~1U; g <= lines.last_group; g += 2) {
    __m512 w[2];
    PIE_UNROLL
    for (int i = 0; i < 2; ++i) {
      const __m512 s = _mm512_load_ps(lines.scores[line] + 16 * (g + i));
      const __m512 x = _mm512_fmsub_ps(s, _mm512_set1_ps(kLog2E), _mm512_set1_ps(shift));
      w[i] =
          _mm512_castsi512_ps(_mm512_maskz_mov_epi32(GroupOf(lines.visible[line], g + i), Exp2(x)));
    }
    const auto pairs = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(w[1], w[0]));
    _mm512_store_si512(lines.weights[line] + 8 * g, pairs);
    sum = Dot(sum, pairs, ones);
  }
  return sum;
}

// Multiplies values [dim] by `factor`.
PIE_AVX512_BF16 void Rescale(float factor, uint32_t dim, float* values) {
  for (uint32_t d = 0; d < dim; d += 16) {
    const uint16_t mask = dim - d >= 16 ? 0xFFFF : LaneMask(dim - d);
    const __m512 v = _mm512_maskz_loadu_ps(mask, values + d);
    Store512(values + d, mask, _mm512_mul_ps(v, _mm512_set1_ps(factor)));
  }
}

// Turns scores into weights relative to each line's new maximum and rescales the earlier result to
// it.
PIE_AVX512_BF16 void WeighLines(const Span& span, Lines& lines, const Partial& out) {
  const uint32_t dim = span.kv->head_dim;
  const auto mask = LaneMask(lines.count);
  const __m512 nothing = _mm512_set1_ps(kNothing);
  const __m512 before = _mm512_mask_loadu_ps(nothing, mask, out.max + lines.first);
  const __m512 max = _mm512_max_ps(before, Greatest(span.softcap, lines));
  // A line that has seen no key has weights of 0, whatever they are relative to.
  const __mmask16 some = _mm512_cmp_ps_mask(max, nothing, _CMP_NEQ_UQ);
  const __m512 shift = _mm512_maskz_mul_ps(some, max, _mm512_set1_ps(kLog2E));
  alignas(64) float shifts[kLanes];
  _mm512_store_ps(shifts, shift);
  __m512 sums[kLanes];
  for (uint32_t line = 0; line < kLanes; ++line) {
    sums[line] = line < lines.count ? Weigh(shifts[line], line, lines) : _mm512_setzero_ps();
  }
  const __m512 x = _mm512_fmsub_ps(before, _mm512_set1_ps(kLog2E), shift);
  const __mmask16 risen = _mm512_cmp_ps_mask(max, before, _CMP_NEQ_UQ);
  const __m512 keep = _mm512_mask_mov_ps(_mm512_set1_ps(1), risen, _mm512_castsi512_ps(Exp2(x)));
  const __m512 sum = _mm512_maskz_loadu_ps(mask, out.sum + lines.first);
  Store512(out.sum + lines.first, mask, _mm512_fmadd_ps(sum, keep, Across(sums, Plus{})));
  Store512(out.max + lines.first, mask, max);
  alignas(64) float keeps[kLanes];
  _mm512_store_ps(keeps, keep);
  for (uint32_t left = risen & mask; left != 0; left &= left - 1) {
    const int line = std::countr_zero(left);
    Rescale(keeps[line], dim, out.values + size_t{lines.first + line} * dim);
  }
}

// Adds the weighted values of the block for kN lines and 16 × kC dimensions.
template <int kN, int kC, class Block>
PIE_AVX512_BF16 void AddValues(const Block& block, const Lines& lines, uint32_t line,
                               uint32_t first_chunk, uint32_t dim, const Partial& out) {
  const uint32_t first_dim = 16 * first_chunk;
  // The mask of the last chunk; it has fewer than 16 lanes only if head_dim is not a multiple of
  // 16.
  const uint16_t last =
      dim - first_dim >= 16 * kC ? 0xFFFF : LaneMask(dim - first_dim - 16 * (kC - 1));
  float* const to = out.values + size_t{lines.first + line} * dim + first_dim;
  __m512 sum[kN][kC];
  PIE_UNROLL
  for (int n = 0; n < kN; ++n) {
    PIE_UNROLL
    for (int c = 0; c < kC; ++c) {
      const uint16_t mask = c + 1 == kC ? last : 0xFFFF;
      sum[n][c] = _mm512_maskz_loadu_ps(mask, to + size_t(n) * dim + 16 * c);
    }
  }
  for (uint32_t pair = 8 * lines.first_group; pair < 8 * (lines.last_group + 1); ++pair) {
    __m512i v[kC];
    PIE_UNROLL
    for (int c = 0; c < kC; ++c) v[c] = block.Values(pair, first_chunk + c);
    PIE_UNROLL
    for (int n = 0; n < kN; ++n) {
      const __m512i weight = _mm512_set1_epi32(static_cast<int>(lines.weights[line + n][pair]));
      PIE_UNROLL
      for (int c = 0; c < kC; ++c) sum[n][c] = Dot(sum[n][c], weight, v[c]);
    }
  }
  PIE_UNROLL
  for (int n = 0; n < kN; ++n) {
    PIE_UNROLL
    for (int c = 0; c < kC; ++c) {
      const uint16_t mask = c + 1 == kC ? last : 0xFFFF;
      Store512(to + size_t(n) * dim + 16 * c, mask, sum[n][c]);
    }
  }
}

template <int kN, class Block>
void AddDims(const Block& block, const Lines& lines, uint32_t line, uint32_t dim,
             const Partial& out) {
  uint32_t chunk = 0;
  for (; 16 * (chunk + 4) <= dim; chunk += 4) {
    AddValues<kN, 4>(block, lines, line, chunk, dim, out);
  }
  for (; 16 * chunk < dim; ++chunk) AddValues<kN, 1>(block, lines, line, chunk, dim, out);
}

// Calls f.template operator()<kN>(line) for four lines at a time, then for the rest.
template <class F>
void ByFours(uint32_t count, F&& f) {
  uint32_t line = 0;
  for (; line + 4 <= count; line += 4) f.template operator()<4>(line);
  switch (count - line) {
    case 3:
      return f.template operator()<3>(line);
    case 2:
      return f.template operator()<2>(line);
    case 1:
      return f.template operator()<1>(line);
    default:
      return;
  }
}

template <class Block>
void RunLines(const Span& span, const Block& block, Lines& lines, const Partial& out) {
  const uint32_t dim = span.kv->head_dim;
  ByFours(lines.count,
          [&]<int kN>(uint32_t line) { ScoreGroups<kN>(block, (dim + 1) / 2, line, lines); });
  WeighLines(span, lines, out);
  ByFours(lines.count, [&]<int kN>(uint32_t line) { AddDims<kN>(block, lines, line, dim, out); });
}

// Finds the groups that some line sees; false if there are none. Groups between the first and the
// last are computed too.
bool Look(const uint64_t* visible, Lines& lines) {
  uint64_t any = 0;
  for (uint32_t i = 0; i < lines.count; ++i) any |= visible[lines.first + i];
  if (any == 0) return false;
  lines.visible = visible + lines.first;
  lines.first_group = static_cast<uint32_t>(std::countr_zero(any)) / 16;
  lines.last_group = static_cast<uint32_t>(63 - std::countl_zero(any)) / 16;
  return true;
}

template <class Block>
void RunBlocks(const Span& span, const Partial& out) {
  alignas(64) uint32_t q[kLines][PairBlock::kMaxPairs];
  PackQueries(span, q);
  Block block;
  Lines lines;
  std::memset(lines.scores, 0, std::min(span.lines, kLanes) * sizeof lines.scores[0]);
  uint64_t visible[kLines];
  for (uint32_t key = span.begin_key; key < span.end_key; key += kBlock) {
    uint64_t any = 0;
    for (uint32_t i = 0; i < span.lines; ++i) any |= visible[i] = span.Visible(i, key);
    if (any == 0) continue;
    block.Find(span, key, any);
    for (lines.first = 0; lines.first < span.lines; lines.first += kLanes) {
      lines.count = std::min(kLanes, span.lines - lines.first);
      lines.q = q + lines.first;
      if (Look(visible, lines)) RunLines(span, block, lines, out);
    }
  }
}

}  // namespace

void SpanBf16(const Span& span, const Partial& out) {
  if (span.lines > kRawLines || !FitsRaw(*span.kv)) return RunBlocks<PairBlock>(span, out);
  span.kv->type == KvType::kQ8 ? RunBlocks<RawBytes>(span, out) : RunBlocks<RawHalves>(span, out);
}

}  // namespace pie::cpu::attention
