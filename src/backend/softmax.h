// The passes over a whole row of logits that sampling is made of, written so that compilers make
// vector code of them. Results do not depend on which vector instructions the machine has.
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

// exp(x), to a few units in the last place; 0 below -87.
float ExpOf(float x);

// weights[i] = exp((logits[i] - best) / temperature), the best has 1 and NaN 0; sums[b] = the sum
// of block b. `best` is the maximum, `weights` as long as `logits`. Returns the sum of all.
double Weigh(std::span<const float> logits, float best, float temperature, float* weights,
             std::vector<double>& sums);

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
