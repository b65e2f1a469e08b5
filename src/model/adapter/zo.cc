#include "model/adapter/zo.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/limits.h"

namespace pie {
namespace {

double MedianOf(std::vector<float> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (double{values[half - 1]} + values[half]) / 2;
}

float NextSigma(std::span<const float> scores, float max_sigma, ZoState& state) {
  float sigma = state.sigma;
  if (!state.scores.empty()) {
    const double median = MedianOf(state.scores);
    double better = 0;
    for (const float score : scores) better += score > median ? 1 : score == median ? 0.5 : 0;
    const double z = 2 * better / static_cast<double>(scores.size()) - 1;
    state.success = static_cast<float>(0.7 * state.success + 0.3 * z);
    sigma = std::max(sigma * std::exp(state.success / 4), state.initial_sigma / 16);
  }
  return std::min(sigma, max_sigma);
}

// B += factor·E(seed).
void AddNoise(const ZoNoise& noise, float factor, LowRank& part) {
  const size_t rank = part.rank;
  std::vector<float> row(rank);
  for (size_t j = 0; j < rank; ++j) {
    row[j] = (noise.Columns(j / 64) >> (j % 64) & 1) != 0 ? factor : -factor;
  }
  uint64_t signs = 0;
  for (size_t i = 0; i < part.b.size() / rank; ++i) {
    if (i % 64 == 0) signs = noise.Rows(i / 64);
    float* const b = &part.b[i * rank];
    if ((signs >> (i % 64) & 1) != 0) {
      for (size_t j = 0; j < rank; ++j) b[j] += row[j];
    } else {
      for (size_t j = 0; j < rank; ++j) b[j] -= row[j];
    }
  }
}

Status CheckScores(std::span<const float> scores, std::span<const int64_t> seeds, float max_sigma,
                   const ZoState& state) {
  if (state.population == 0) {
    return Fail(Code::kInvalid, "the adapter is not being tuned: call zo.initialize first");
  }
  if (scores.size() != seeds.size()) {
    return Fail(Code::kInvalid, "{} scores for {} seeds: give one score for each seed",
                scores.size(), seeds.size());
  }
  if (scores.size() != state.population) {
    return Fail(Code::kInvalid, "{} scores, but population_size is {}: give one for each candidate",
                scores.size(), state.population);
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!std::isfinite(scores[i])) {
      return Fail(Code::kInvalid, "score {} is {}: scores must be finite", i, scores[i]);
    }
  }
  if (!(max_sigma >= 0 && std::isfinite(max_sigma))) {
    return Fail(Code::kInvalid, "max_sigma must be a finite number, 0 or more, not {}", max_sigma);
  }
  return {};
}

}  // namespace

Result<ZoState> StartZo(uint32_t population, float mu_fraction, float initial_sigma) {
  if (population == 0 || population > limits::kZoPopulation) {
    return Fail(Code::kInvalid, "population_size must be from 1 to {}, not {}",
                limits::kZoPopulation, population);
  }
  if (!(mu_fraction > 0 && mu_fraction <= 1)) {
    return Fail(Code::kInvalid, "mu_fraction must be above 0 and at most 1, not {}", mu_fraction);
  }
  if (!(initial_sigma >= 0 && std::isfinite(initial_sigma))) {
    return Fail(Code::kInvalid, "initial_sigma must be a finite number, 0 or more, not {}",
                initial_sigma);
  }
  return ZoState{.population = population,
                 .mu_fraction = mu_fraction,
                 .initial_sigma = initial_sigma,
                 .sigma = initial_sigma};
}

std::vector<double> ZoWeights(std::span<const float> scores, float mu_fraction) {
  const size_t count = scores.size();
  const auto mu = static_cast<size_t>(
      std::max(1.0, std::floor(static_cast<double>(count) * double{mu_fraction})));
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<double> by_rank(count);
  for (size_t i = 0; i < std::min(mu, count); ++i) {
    by_rank[i] = std::log(static_cast<double>(mu) + 0.5) - std::log(static_cast<double>(i + 1));
  }
  const double sum = std::accumulate(by_rank.begin(), by_rank.end(), 0.0);
  std::vector<double> weights(count);
  for (size_t begin = 0; begin < count;) {
    size_t end = begin;
    double shared = 0;
    while (end < count && scores[order[end]] == scores[order[begin]]) shared += by_rank[end++];
    for (size_t i = begin; i < end; ++i) {
      weights[order[i]] = shared / static_cast<double>(end - begin) / sum;
    }
    begin = end;
  }
  return weights;
}

Status UpdateZo(std::span<const float> scores, std::span<const int64_t> seeds, float max_sigma,
                ZoState& state, AdapterWeights& weights, const std::function<bool()>& stopped) {
  PIE_RETURN_IF_ERROR(CheckScores(scores, seeds, max_sigma, state));
  const std::vector<double> shares = ZoWeights(scores, state.mu_fraction);
  for (uint32_t layer = 0; layer < weights.layers.size(); ++layer) {
    for (uint32_t slot = 0; slot < weights.layers[layer].size(); ++slot) {
      LowRank& part = weights.layers[layer][slot];
      if (part.rank == 0) continue;
      for (size_t i = 0; i < seeds.size(); ++i) {
        if (shares[i] == 0 || seeds[i] == 0) continue;
        if (stopped && stopped()) return Fail(Code::kCancelled, "the update was stopped");
        const ZoNoise noise(seeds[i], layer, slot);
        AddNoise(noise, noise.sign * static_cast<float>(shares[i] * double{state.sigma}), part);
      }
    }
  }
  state.sigma = NextSigma(scores, max_sigma, state);
  state.scores.assign(scores.begin(), scores.end());
  ++state.generations;
  return {};
}

}  // namespace pie
