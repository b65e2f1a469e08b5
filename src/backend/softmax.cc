#include "backend/softmax.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "backend/vector_clones.h"

namespace pie {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr size_t kLanes = 16;

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

// 32 values and the word of their bits.
constexpr size_t kWord = 32;

PIE_VECTOR_CLONES void KeepWord(const float* values, uint32_t word, float* out) {
  for (uint32_t i = 0; i < kWord; ++i) {
    out[i] = ((word >> i) & 1U) != 0 ? values[i] : kNone;
  }
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

std::optional<uint32_t> ArgmaxAllowed(std::span<const float> values,
                                      std::span<const uint32_t> bits) {
  float max = kNone;
  size_t best = 0;  // the word of the maximum
  for (size_t w = 0; w < bits.size() && w * kWord < values.size(); ++w) {
    if (bits[w] == 0) continue;
    const float* const of_word = values.data() + w * kWord;
    const size_t count = std::min(kWord, values.size() - w * kWord);
    float of_this = kNone;
    if (bits[w] == UINT32_MAX) {
      of_this = MaxOf(of_word, count);
    } else if (std::popcount(bits[w]) <= 4 || count < kWord) {
      for (uint32_t word = bits[w]; word != 0; word &= word - 1) {
        const auto i = static_cast<size_t>(std::countr_zero(word));
        if (i < count && of_word[i] > of_this) of_this = of_word[i];
      }
    } else {
      float kept[kWord];
      KeepWord(of_word, bits[w], kept);
      of_this = MaxOf(kept, kWord);
    }
    if (!(of_this > max)) continue;
    max = of_this;
    best = w;
  }
  if (!(max > kNone)) return std::nullopt;
  uint32_t word = bits[best];
  while (values[best * kWord + static_cast<size_t>(std::countr_zero(word))] != max) {
    word &= word - 1;
  }
  return static_cast<uint32_t>(best * kWord) + static_cast<uint32_t>(std::countr_zero(word));
}

void KeepAllowed(std::span<const float> values, std::span<const uint32_t> bits, float* out) {
  for (size_t begin = 0; begin < values.size(); begin += kWord) {
    const uint32_t word = begin / kWord < bits.size() ? bits[begin / kWord] : 0;
    const size_t count = std::min(kWord, values.size() - begin);
    if (word == 0) {
      std::fill_n(out + begin, count, kNone);
    } else if (count == kWord) {
      KeepWord(values.data() + begin, word, out + begin);
    } else {
      for (size_t i = 0; i < count; ++i) {
        out[begin + i] = ((word >> i) & 1U) != 0 ? values[begin + i] : kNone;
      }
    }
  }
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
