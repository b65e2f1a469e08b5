#include "sched/read_cost.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/limits.h"

namespace pie {
namespace {

// How often a sampler or probe goes over the vocabulary, roughly.
uint64_t Sweeps(const SampleSpec& spec) {
  switch (spec.kind) {
    case SampleSpec::Kind::kEmbedding:
      return 0;
    case SampleSpec::Kind::kLogits:
      return 1;
    case SampleSpec::Kind::kLogprobs:
    case SampleSpec::Kind::kEntropy:
      return 2;
    case SampleSpec::Kind::kTopP:
    case SampleSpec::Kind::kTopKTopP:
    case SampleSpec::Kind::kDistribution:
      return 8;  // a flat row has to be sorted
    default:
      return spec.temperature == 0 ? 1 : 4;
  }
}

uint64_t CostOf(const SampleSpec& spec, uint32_t vocab_size) {
  return Sweeps(spec) * vocab_size / kReadUnit + spec.ids.size() / kReadUnit + spec.draws + 1;
}

// Runs of a mask that are hashed, copied twice and applied in the time of a unit.
constexpr size_t kRunsPerUnit = 64;

uint64_t CostOf(const Brle& mask) {
  return mask.size() / kRunsPerUnit;
}

uint32_t Bounded(uint64_t cost) {
  return static_cast<uint32_t>(std::min<uint64_t>(cost, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

std::vector<uint32_t> MaskCosts(const Forward& forward) {
  std::vector<uint32_t> costs(forward.tokens.size());
  for (size_t row = 0; row < forward.attention.size(); ++row) {
    costs[row] = Bounded(CostOf(forward.attention[row]));
  }
  return costs;
}

std::vector<uint32_t> ReadCosts(const Forward& forward, uint32_t vocab_size) {
  uint64_t total = 0;
  for (const SampleSpec& spec : forward.samples) {
    total += CostOf(spec, vocab_size) * spec.rows.size();
  }
  for (const Brle& mask : forward.attention) total += CostOf(mask);
  if (total <= limits::kCheapReading) return {};
  std::vector<uint32_t> costs = MaskCosts(forward);
  for (const SampleSpec& spec : forward.samples) {
    const uint64_t cost = CostOf(spec, vocab_size);
    for (const uint32_t row : spec.rows) {
      costs[row] = Bounded(costs[row] + cost);
    }
  }
  return costs;
}

uint32_t FurtherReading(const Forward& forward, uint32_t vocab_size) {
  if (forward.samples.size() == 1 && forward.samples[0].rows.size() == 1) return 0;  // a plain step
  std::vector<std::pair<uint32_t, uint64_t>> reads;                                  // row, cost
  for (const SampleSpec& spec : forward.samples) {
    for (const uint32_t row : spec.rows) reads.emplace_back(row, CostOf(spec, vocab_size));
  }
  std::ranges::sort(reads);  // the most expensive one of a row is its last
  uint64_t further = 0;
  for (size_t i = 0; i + 1 < reads.size(); ++i) {
    if (reads[i].first == reads[i + 1].first) further += reads[i].second;
  }
  return Bounded(further);
}

}  // namespace pie
