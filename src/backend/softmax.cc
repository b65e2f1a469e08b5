#include "backend/softmax.h"

#include <algorithm>
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

PIE_VECTOR_CLONES bool AnyOf(const float* values, size_t count, float least) {
  uint32_t any = 0;
  for (size_t i = 0; i < count; ++i) any |= values[i] >= least ? 1U : 0U;
  return any != 0;
}

}  // namespace

float Max(std::span<const float> values) {
  return MaxOf(values.data(), values.size());
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
