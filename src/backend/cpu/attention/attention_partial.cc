#include "backend/cpu/attention/attention_partial.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/machine/simd.h"

namespace pie::cpu::attention {
namespace {

// Sets values to values × keep + more × add, [n].
void MixScalar(float* values, float keep, const float* more, float add, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) values[i] = values[i] * keep + more[i] * add;
}

PIE_AVX2 void MixAvx2(float* values, float keep, const float* more, float add, uint32_t n) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 kept = _mm256_mul_ps(_mm256_loadu_ps(values + i), _mm256_set1_ps(keep));
    const __m256 added = _mm256_mul_ps(_mm256_loadu_ps(more + i), _mm256_set1_ps(add));
    _mm256_storeu_ps(values + i, _mm256_add_ps(kept, added));
  }
  MixScalar(values + i, keep, more + i, add, n - i);
}

void ScaleScalar(const float* x, float factor, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; ++i) out[i] = x[i] * factor;
}

PIE_AVX2 void ScaleAvx2(const float* x, float factor, uint32_t n, float* out) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(factor)));
  }
  ScaleScalar(x + i, factor, n - i, out + i);
}

}  // namespace

void Partials::Resize(uint32_t count, uint32_t lines, uint32_t head_dim) {
  lines_ = lines;
  stride_ = Partial::Floats(lines, head_dim);
  if (size_ >= count * stride_) return;
  size_ = count * stride_;
  memory_ = std::make_unique_for_overwrite<float[]>(size_);
}

void Clear(const Partial& partial, uint32_t lines, uint32_t head_dim) {
  std::fill_n(partial.max, lines, kNothing);
  std::fill_n(partial.sum, lines, 0.0F);
  std::fill_n(partial.values, size_t{lines} * head_dim, 0.0F);
}

void CopyLines(const Partial& from, uint32_t first, uint32_t lines, uint32_t head_dim,
               const Partial& to) {
  std::copy_n(from.max + first, lines, to.max);
  std::copy_n(from.sum + first, lines, to.sum);
  std::copy_n(from.values + size_t{first} * head_dim, size_t{lines} * head_dim, to.values);
}

void Merge(CpuLevel level, const Partial& from, uint32_t lines, uint32_t head_dim,
           const Partial& to) {
  const auto mix = level >= CpuLevel::kAvx2 ? MixAvx2 : MixScalar;
  for (uint32_t line = 0; line < lines; ++line) {
    const float from_max = from.max[line];
    if (from_max == kNothing) continue;
    const float max = std::max(from_max, to.max[line]);
    const float keep = std::exp(to.max[line] - max);
    const float add = std::exp(from_max - max);
    to.max[line] = max;
    to.sum[line] = to.sum[line] * keep + from.sum[line] * add;
    mix(to.values + size_t{line} * head_dim, keep, from.values + size_t{line} * head_dim, add,
        head_dim);
  }
}

void Scale(CpuLevel level, const float* x, float factor, uint32_t n, float* out) {
  (level >= CpuLevel::kAvx2 ? ScaleAvx2 : ScaleScalar)(x, factor, n, out);
}

}  // namespace pie::cpu::attention
