// The exponentials of softmax.h, in a file of their own because they are compiled with other
// options.
#include <algorithm>
#include <bit>
#include <limits>

#include "backend/softmax.h"
#include "backend/vector_clones.h"

namespace pie {
namespace {

constexpr size_t kLanes = 16;
constexpr float kNone = -std::numeric_limits<float>::infinity();
// exp(-40) is 4e-18, so a million such logits sum to 4e-12, which is below the precision of a
// float.
constexpr float kNegligible = -40.0F;

// Multiplies 2^n, made from exponent bits, by a polynomial of the remainder of x in [-ln2/2,
// ln2/2].
[[gnu::always_inline]] inline float Exp(float x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;  // has few bits, so that n times it is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLeast = -87.0F;
  const float clipped = x > kLeast ? x : kLeast;
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
  return x > kLeast ? scaled : 0.0F;  // 0 for NaN too
}

// Returns the sum of exp((logit - best) * inverse). `best` is finite.
PIE_VECTOR_CLONES double SumBlock(const float* logits, size_t count, float best, float inverse) {
  // each lane sums a sixteenth of a block, for which float is precise enough
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += Exp((logits[i + lane] - best) * inverse);
    }
  }
  for (; i < count; ++i) lanes[0] += Exp((logits[i] - best) * inverse);
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

PIE_VECTOR_CLONES void WeighAll(const float* logits, size_t count, float best, float inverse,
                                float* weights) {
  for (size_t i = 0; i < count; ++i) {
    const float below = Exp((logits[i] - best) * inverse);
    weights[i] = logits[i] == best ? 1.0F : below;  // keeps an infinite best from becoming NaN
  }
}

}  // namespace

float ExpOf(float x) {
  return Exp(x);
}

float InverseOf(float temperature) {
  return 1 / std::max(temperature, 1e-37F);
}

float WeightOf(float logit, float best, float inverse) {
  return logit == best ? 1.0F : Exp((logit - best) * inverse);
}

void WeighEach(std::span<const float> logits, float best, float inverse, float* weights) {
  WeighAll(logits.data(), logits.size(), best, inverse, weights);
}

Softmax Weigh(std::span<const float> logits, float inverse, std::vector<SoftmaxBlock>& blocks) {
  blocks.clear();
  Softmax row{kNone, 0};
  for (size_t begin = 0; begin < logits.size(); begin += kSoftmaxBlock) {
    const auto block = logits.subspan(begin, std::min(kSoftmaxBlock, logits.size() - begin));
    const float max = Max(block);
    row.best = std::max(row.best, max);
    // The row's best is not yet known, so the block is summed relative to its own maximum, unless
    // it is already negligible.
    double sum = 0;
    if (max == std::numeric_limits<float>::infinity()) {
      sum = static_cast<double>(std::ranges::count(block, max));
    } else if (max > kNone && !((max - row.best) * inverse < kNegligible)) {
      sum = SumBlock(block.data(), block.size(), max, inverse);
    }
    blocks.push_back({max, 0, sum});
  }
  for (SoftmaxBlock& block : blocks) {
    block.scale = block.share == 0 ? 0 : WeightOf(block.max, row.best, inverse);
    block.share *= block.scale;
    row.total += block.share;
  }
  return row;
}

}  // namespace pie
