// The exponentials of softmax.h, apart from the rest: they need to be compiled with other options.
#include <algorithm>
#include <bit>

#include "backend/softmax.h"
#include "backend/vector_clones.h"

namespace pie {
namespace {

constexpr size_t kLanes = 16;

// 2^n by way of the exponent's bits, times a polynomial for what is left of x, in [-ln2/2, ln2/2].
[[gnu::always_inline]] inline float Exp(float x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;  // few bits, so that n times it is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to whole numbers
  constexpr float kLeast = -87.0F;
  const float below = x < 88.0F ? x : 88.0F;  // one choice at a time, or it is no vector code
  const float clipped = below > kLeast ? below : kLeast;
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
      const float below = Exp((logit - best) / temperature);
      const float weight = logit == best ? 1.0F : below;
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

}  // namespace

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

}  // namespace pie
