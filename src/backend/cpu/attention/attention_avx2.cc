#include <bit>
#include <cmath>

#include "backend/cpu/attention/attention_kernels.h"
#include "backend/cpu/machine/simd.h"
#include "model/half.h"

namespace pie::cpu::attention {
namespace {

constexpr uint32_t kLanes = 8;

// Scores up to kBlock keys from `first` on for one line: eight keys of a page at a time, or one at
// a time where pages are smaller.
PIE_AVX2 void Score(const Span& span, uint32_t line, uint32_t first, uint32_t count,
                    float* scores) {
  const uint32_t dim = span.kv->head_dim;
  const uint32_t tokens = span.kv->page_tokens;
  const float* const q = span.q + size_t{line} * dim;
  for (uint32_t i = 0; i < count;) {
    const auto [keys, values, slot] = span.Find(first + i);
    if (tokens - slot >= kLanes) {
      __m256 even = _mm256_setzero_ps();
      __m256 odd = _mm256_setzero_ps();
      uint32_t d = 0;
      for (; d + 2 <= dim; d += 2) {
        const uint16_t* const at = keys + size_t{d} * tokens;
        even = _mm256_fmadd_ps(_mm256_set1_ps(q[d]), LoadHalf256(at), even);
        odd = _mm256_fmadd_ps(_mm256_set1_ps(q[d + 1]), LoadHalf256(at + tokens), odd);
      }
      if (d < dim) {
        even = _mm256_fmadd_ps(_mm256_set1_ps(q[d]), LoadHalf256(keys + size_t{d} * tokens), even);
      }
      _mm256_storeu_ps(scores + i, _mm256_add_ps(even, odd));
      i += kLanes;
    } else {
      // Adds in the same order as above, so that the page size does not affect results.
      float sums[2] = {0, 0};
      for (uint32_t d = 0; d < dim; ++d) {
        sums[d % 2] = std::fma(q[d], HalfToFloat(keys[size_t{d} * tokens]), sums[d % 2]);
      }
      scores[i++] = sums[0] + sums[1];
    }
  }
}

// values += weight × v, [dim].
PIE_AVX2 void AddValue(float weight, const uint16_t* v, uint32_t dim, float* values) {
  uint32_t d = 0;
  for (; d + kLanes <= dim; d += kLanes) {
    const __m256 sum = _mm256_loadu_ps(values + d);
    _mm256_storeu_ps(values + d, _mm256_fmadd_ps(_mm256_set1_ps(weight), LoadHalf256(v + d), sum));
  }
  for (; d < dim; ++d) values[d] += weight * HalfToFloat(v[d]);
}

PIE_AVX2 void CapAll(float* scores, float cap) {
  for (uint32_t i = 0; i < kBlock; i += kLanes) {
    const __m256 s = _mm256_div_ps(_mm256_loadu_ps(scores + i), _mm256_set1_ps(cap));
    _mm256_storeu_ps(scores + i, _mm256_mul_ps(Tanh256(s), _mm256_set1_ps(cap)));
  }
}

// Turns scores into weights relative to `max`, for visible and invisible keys alike.
PIE_AVX2 void ExpAll(float* scores, float max) {
  for (uint32_t i = 0; i < kBlock; i += kLanes) {
    const __m256 below = _mm256_sub_ps(_mm256_loadu_ps(scores + i), _mm256_set1_ps(max));
    _mm256_storeu_ps(scores + i, Exp256(below));
  }
}

}  // namespace

void SpanAvx2(const Span& span, const Partial& out) {
  const uint32_t dim = span.kv->head_dim;
  float scores[kBlock + kLanes] = {};
  for (uint32_t block = span.begin_key; block < span.end_key; block += kBlock) {
    for (uint32_t line = 0; line < span.lines; ++line) {
      const uint64_t visible = span.Visible(line, block);
      if (visible == 0) continue;
      Score(span, line, block, static_cast<uint32_t>(kBlock - std::countl_zero(visible)), scores);
      if (span.softcap != 0) CapAll(scores, span.softcap);
      float max = out.max[line];
      for (uint64_t left = visible; left != 0; left &= left - 1) {
        max = std::max(max, scores[std::countr_zero(left)]);
      }
      float* const values = out.values + size_t{line} * dim;
      if (max > out.max[line]) {
        const float keep = std::exp(out.max[line] - max);
        out.max[line] = max;
        out.sum[line] *= keep;
        for (uint32_t d = 0; d < dim; ++d) values[d] *= keep;
      }
      ExpAll(scores, max);
      for (uint64_t left = visible; left != 0; left &= left - 1) {
        const int key = std::countr_zero(left);
        out.sum[line] += scores[key];
        AddValue(scores[key], span.Find(block + key).values, dim, values);
      }
    }
  }
}

}  // namespace pie::cpu::attention
