// The passes over a whole row of logits that sampling needs, written so that compilers vectorise
// them. Results do not depend on the vector instructions of the machine.
//
// The weight of a logit is exp((logit - best) / temperature): 1 for the best, 0 for NaN. The
// weights of a whole row are never stored; sums are kept per block.
//
// Each pass takes about 10 µs for 50,000 logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pie {

constexpr size_t kSoftmaxBlock = 256;  // logits per block, which has one sum or maximum

// Returns the largest value, -inf if there is none. NaN is ignored.
float Max(std::span<const float> values);

// The index of the largest of the values whose bit is set, the first of equal ones; none if there
// is no such value, or only NaN and -inf. There is a bit for each value, the lowest first. Values
// of words without a bit are not read.
std::optional<uint32_t> ArgmaxAllowed(std::span<const float> values,
                                      std::span<const uint32_t> bits);
// Copies those values to `out`, which has -inf for the others.
void KeepAllowed(std::span<const float> values, std::span<const uint32_t> bits, float* out);

// Returns exp(x) for x up to 88, to a few units in the last place, and 0 below -87.
float ExpOf(float x);

// Returns 1 / temperature, always finite. `temperature` is above 0.
float InverseOf(float temperature);

// Returns the weight of a logit relative to `best`. `inverse` is InverseOf(temperature).
float WeightOf(float logit, float best, float inverse);

struct SoftmaxBlock {
  float max;     // of the block's logits; -inf: it has none
  float scale;   // the weight of that maximum within the row
  double share;  // the sum of the block's weights within the row
};

struct Softmax {
  float best;    // the maximum of the row; -inf: the row has none and `total` is 0
  double total;  // the sum of all weights
};

// Sums the weights of a row. A block whose weights are all below 1e-17 counts as 0: all such blocks
// together are less than the rounding error of the others.
Softmax Weigh(std::span<const float> logits, float inverse, std::vector<SoftmaxBlock>& blocks);

// Sets weights[i] to the weight of logits[i] relative to `best`. `weights` is as long as `logits`.
void WeighEach(std::span<const float> logits, float best, float inverse, float* weights);

// Sets maxima[b] to the maximum of block b.
void BlockMaxima(std::span<const float> values, std::vector<float>& maxima);

// Calls take(i) for every value that is at least `least`, in order. Fast if nearly all values are
// smaller.
template <class Take>
void ForEachAtLeast(std::span<const float> values, float least, Take&& take);

// True if one of `count` values is at least `least`. `count` is at most kSoftmaxBlock.
bool AnyAtLeast(const float* values, size_t count, float least);

template <class Take>
void ForEachAtLeast(std::span<const float> values, float least, Take&& take) {
  constexpr size_t kStride = 64;
  for (size_t begin = 0; begin < values.size(); begin += kStride) {
    const size_t end = begin + kStride < values.size() ? begin + kStride : values.size();
    if (!AnyAtLeast(values.data() + begin, end - begin, least)) continue;
    for (size_t i = begin; i < end; ++i) {
      if (values[i] >= least) take(i);
    }
  }
}

}  // namespace pie
