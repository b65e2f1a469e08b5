#include <algorithm>
#include <cmath>

#include "backend/cpu/attention/attention_kernels.h"
#include "model/half.h"

namespace pie::cpu::attention {

// The reference: a softmax in two passes, line by line.
void SpanScalar(const Span& span, const Partial& out) {
  const uint32_t dim = span.kv->head_dim;
  for (uint32_t line = 0; line < span.lines; ++line) {
    float scores[Attention::kSpanKeys];
    const float before = out.max[line];
    const auto sees = [&](uint32_t key) {
      return (span.Visible(line, key / kBlock * kBlock) >> (key % kBlock) & 1) != 0;
    };
    for (uint32_t key = span.begin_key; key < span.end_key; ++key) {
      if (!sees(key)) continue;
      const uint16_t* const keys = span.Find(key).keys;
      float score = 0;
      for (uint32_t d = 0; d < dim; ++d) {
        const float k = HalfToFloat(keys[size_t{d} * span.kv->page_tokens]);
        score += span.q[line * dim + d] * k;
      }
      if (span.softcap != 0) score = span.softcap * std::tanh(score / span.softcap);
      scores[key - span.begin_key] = score;
      out.max[line] = std::max(out.max[line], score);
    }
    if (out.max[line] > before) {  // rescales the result of earlier keys to the new maximum
      const float keep = std::exp(before - out.max[line]);
      out.sum[line] *= keep;
      for (uint32_t d = 0; d < dim; ++d) out.values[line * dim + d] *= keep;
    }
    for (uint32_t key = span.begin_key; key < span.end_key; ++key) {
      if (!sees(key)) continue;
      const float weight = std::exp(scores[key - span.begin_key] - out.max[line]);
      out.sum[line] += weight;
      const uint16_t* const value = span.Find(key).values;
      for (uint32_t d = 0; d < dim; ++d) {
        out.values[line * dim + d] += weight * HalfToFloat(value[d]);
      }
    }
  }
}

}  // namespace pie::cpu::attention
