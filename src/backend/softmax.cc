#include "backend/softmax.h"

#include <algorithm>
#include <bit>
#include <limits>

// One function, compiled for several instruction sets; the right one is chosen when the program is
// loaded. Not under sanitizers, whose start-up comes later than that choice.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PIE_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PIE_SANITIZED
#endif
#if defined(__x86_64__) && defined(__ELF__) && !defined(PIE_SANITIZED)
#define PIE_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PIE_VECTOR_CLONES
#endif

namespace pie {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr size_t kLanes = 16;

// 2^n by way of the exponent's bits, times a polynomial for what is left of x, in [-ln2/2, ln2/2].
[[gnu::always_inline]] inline float Exp(float x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;  // few bits, so that n times it is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to whole numbers
  constexpr float kLeast = -87.0F;
  const float clipped = x > kLeast ? (x < 88.0F ? x : 88.0F) : kLeast;
  const float shifted = clipped * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (clipped - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float e = p * (r * r) + r + 1.0F;
  const uint32_t bits = std::bit_cast<uint32_t>(shifted) << 23;  // n << 23
  const float scaled = std::bit_cast<float>(std::bit_cast<uint32_t>(e) + bits);
  return x > kLeast ? scaled : 0.0F;  // NaN too
}

PIE_VECTOR_CLONES double WeighBlock(const float* logits, size_t count, float best,
                                    float temperature, float* weights) {
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float logit = logits[i + lane];
      // Equals first: an infinite best must not become NaN.
      const float weight = logit == best ? 1.0F : Exp((logit - best) / temperature);
      weights[i + lane] = weight;
      lanes[lane] += weight;
    }
  }
  for (; i < count; ++i) {
    weights[i] = logits[i] == best ? 1.0F : Exp((logits[i] - best) / temperature);
    lanes[0] += weights[i];
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

PIE_VECTOR_CLONES float MaxOf(const float* values, size_t count) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, kNone);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = values[i + lane];
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
  }
  for (; i < count; ++i) lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  float max = kNone;
  for (const float lane : lanes) max = lane > max ? lane : max;
  return max;
}

PIE_VECTOR_CLONES bool AnyOf(const float* values, size_t count, float least) {
  uint32_t any = 0;
  for (size_t i = 0; i < count; ++i) any |= values[i] >= least ? 1U : 0U;
  return any != 0;
}

}  // namespace

float Max(std::span<const float> values) {
  return MaxOf(values.data(), values.size());
}

float ExpOf(float x) {
  return Exp(x);
}

double Weigh(std::span<const float> logits, float best, float temperature, float* weights,
             std::vector<double>& sums) {
  sums.clear();
  double total = 0;
  for (size_t begin = 0; begin < logits.size(); begin += kSoftmaxBlock) {
    const size_t count = std::min(kSoftmaxBlock, logits.size() - begin);
    sums.push_back(WeighBlock(logits.data() + begin, count, best, temperature, weights + begin));
    total += sums.back();
  }
  return total;
}

void BlockMaxima(std::span<const float> values, std::vector<float>& maxima) {
  maxima.clear();
  for (size_t begin = 0; begin < values.size(); begin += kSoftmaxBlock) {
    const size_t count = std::min(kSoftmaxBlock, values.size() - begin);
    maxima.push_back(MaxOf(values.data() + begin, count));
  }
}

bool AnyAtLeast(const float* values, size_t count, float least) {
  return AnyOf(values, count, least);
}

}  // namespace pie
