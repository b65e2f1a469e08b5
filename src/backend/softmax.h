// The passes over a whole row of logits that sampling is made of, written so that compilers make
// vector code of them. Results do not depend on which vector instructions the machine has.
//
// A logit's weight is exp((logit - best) / temperature): the best has 1, NaN has 0. Weights of a
// whole row are never written down: what is asked of them is asked by blocks.
//
// Cost: some 10 µs each for 50,000 logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pie {

constexpr size_t kSoftmaxBlock = 256;  // logits that share a sum, or a maximum

// The largest; -inf if there is none. NaN never wins.
float Max(std::span<const float> values);

// exp(x) for x up to 88, to a few units in the last place; 0 below -87.
float ExpOf(float x);

// 1 / temperature, which is above 0; finite.
float InverseOf(float temperature);

// The weight of a logit, beside a best one. `inverse` is InverseOf(temperature).
float WeightOf(float logit, float best, float inverse);

struct SoftmaxBlock {
  float max;     // of its logits; -inf: it has none
  float scale;   // the weight of that maximum in the row
  double share;  // the sum of its logits' weights in the row
};

struct Softmax {
  float best;    // the maximum of all; -inf: there is none, and nothing else is known
  double total;  // the sum of all weights
};

// Sums the weights of a row. Blocks whose logits all have weights below 1e-17 count as 0: together
// they are less than the rounding of the others.
Softmax Weigh(std::span<const float> logits, float inverse, std::vector<SoftmaxBlock>& blocks);

// weights[i] = the weight of logits[i], beside `best`; as long as `logits`.
void WeighEach(std::span<const float> logits, float best, float inverse, float* weights);

// maxima[b] = the maximum of block b.
void BlockMaxima(std::span<const float> values, std::vector<float>& maxima);

// Calls take(i) for every value that is at least `least`, in order. Nearly all must be smaller for
// this to be quick.
template <class Take>
void ForEachAtLeast(std::span<const float> values, float least, Take&& take);

// Whether one of `count` values, at most kSoftmaxBlock, is at least `least`.
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
