#include "backend/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/brle.h"
#include "base/random.h"

namespace pie {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

std::unexpected<Error> NothingAllowed() {
  return Fail(Code::kInvalid, "the logit mask allows no token: allow at least one");
}

// Eight maxima side by side, so that the loop is not a chain of comparisons. NaN never wins.
float Max(std::span<const float> values) {
  constexpr size_t kLanes = 8;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, kNone);
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = values[i + lane];
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
  }
  for (; i < values.size(); ++i) lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

// log(sum(exp(logits))) = max + log(sum)
struct LogSum {
  float max;
  double sum;           // of exp(logit - max)
  double weighted_sum;  // of exp(logit - max) * (logit - max)
};

LogSum SumExp(std::span<const float> logits) {
  LogSum s{Max(logits), 0, 0};
  for (float logit : logits) {
    const double below = static_cast<double>(logit) - s.max;
    if (!(below > -745)) continue;  // exp gives 0 (and NaN is left out)
    const double e = std::exp(below);
    s.sum += e;
    s.weighted_sum += e * below;
  }
  return s;
}

}  // namespace

std::optional<uint32_t> Argmax(std::span<const float> logits, const Brle* mask) {
  float best = kNone;
  std::optional<uint32_t> id;
  const auto consider = [&](uint32_t begin, uint32_t end) {
    const auto run = logits.subspan(begin, end - begin);
    const float max = Max(run);
    if (!(max > best)) return;
    best = max;
    id = begin + static_cast<uint32_t>(std::ranges::find(run, max) - run.begin());
  };
  const auto size = static_cast<uint32_t>(logits.size());
  if (mask == nullptr) {
    consider(0, size);
  } else {
    ForEachTrueRun(*mask, size, consider);
  }
  return id;
}

uint32_t SlotsPerRow(const SampleSpec& spec) {
  return spec.kind == SampleSpec::Kind::kMultinomial ? std::max(spec.draws, 1U) : 1;
}

Status Sampling::Read(const SampleSpec& spec, std::span<const float> logits, const Brle* mask,
                      SampleKey key, std::vector<Slot>& slots) {
  using Kind = SampleSpec::Kind;
  switch (spec.kind) {
    case Kind::kMultinomial:
    case Kind::kTopK:
    case Kind::kTopP:
    case Kind::kMinP:
    case Kind::kTopKTopP:
      return Sample(spec, logits, mask, key, slots);
    case Kind::kDistribution:
      return Distribution(spec, logits, mask, slots);
    case Kind::kLogits:
      slots.emplace_back(LogitsSlot{{logits.begin(), logits.end()}});
      return {};
    case Kind::kLogprobs: {
      const LogSum s = SumExp(logits);
      const double log_total = s.max + std::log(s.sum);
      LogprobsSlot slot;
      slot.logprobs.reserve(spec.ids.size());
      for (uint32_t id : spec.ids) {
        if (id >= logits.size()) {
          return Fail(Code::kInvalid, "logprob of token {}: the vocabulary has {}", id,
                      logits.size());
        }
        slot.logprobs.push_back(static_cast<float>(logits[id] - log_total));
      }
      slots.emplace_back(std::move(slot));
      return {};
    }
    case Kind::kEntropy: {
      const LogSum s = SumExp(logits);
      const double entropy = std::log(s.sum) - s.weighted_sum / s.sum;
      slots.emplace_back(EntropySlot{static_cast<float>(std::max(entropy, 0.0))});
      return {};
    }
    case Kind::kEmbedding:
      break;
  }
  return Fail(Code::kUnavailable, "this device gives no embeddings");
}

Status Sampling::Sample(const SampleSpec& spec, std::span<const float> logits, const Brle* mask,
                        SampleKey key, std::vector<Slot>& slots) {
  using Kind = SampleSpec::Kind;
  const uint32_t draws = SlotsPerRow(spec);
  if (!(spec.temperature > 0)) {
    const std::optional<uint32_t> best = Argmax(logits, mask);
    if (!best) return NothingAllowed();
    for (uint32_t i = 0; i < draws; ++i) slots.emplace_back(TokenSlot{*best});
    return {};
  }

  double total = PIE_TRY(Weigh(spec.temperature, logits, mask));
  switch (spec.kind) {
    case Kind::kTopK:
      KeepTopK(spec.k);
      break;
    case Kind::kTopP:
      KeepTopP(spec.p);
      break;
    case Kind::kMinP:
      KeepMinP(spec.p);
      break;
    case Kind::kTopKTopP:
      KeepTopK(spec.k);
      KeepTopP(spec.p);
      break;
    default:
      break;
  }
  if (spec.kind != Kind::kMultinomial) total = TotalWeight();

  const CounterRng rng{Mix(key.seed, key.spec, key.row)};
  for (uint32_t draw = 0; draw < draws; ++draw) {
    double left = rng.Double(draw) * total;
    uint32_t token = candidates_.front().id;
    for (const Candidate& candidate : candidates_) {
      if (candidate.weight <= 0) continue;
      token = candidate.id;  // the last one stays if rounding leaves a rest
      left -= candidate.weight;
      if (left < 0) break;
    }
    slots.emplace_back(TokenSlot{token});
  }
  return {};
}

Status Sampling::Distribution(const SampleSpec& spec, std::span<const float> logits,
                              const Brle* mask, std::vector<Slot>& slots) {
  const bool greedy = !(spec.temperature > 0);
  const double total = PIE_TRY(Weigh(greedy ? 1 : spec.temperature, logits, mask));
  KeepTopK(spec.k);
  if (spec.k == 0) SortTop(candidates_.size());
  DistributionSlot slot;
  slot.ids.reserve(candidates_.size());
  slot.probs.reserve(candidates_.size());
  for (const Candidate& candidate : candidates_) {
    slot.ids.push_back(candidate.id);
    slot.probs.push_back(greedy ? (slot.probs.empty() ? 1.0F : 0.0F)
                                : static_cast<float>(candidate.weight / total));
  }
  slots.emplace_back(std::move(slot));
  return {};
}

Result<double> Sampling::Weigh(float temperature, std::span<const float> logits, const Brle* mask) {
  candidates_.clear();
  float best = kNone;
  const auto add = [&](uint32_t begin, uint32_t end) {
    for (uint32_t id = begin; id < end; ++id) {
      const float logit = logits[id];
      if (!(logit > kNone)) continue;
      best = std::max(best, logit);
      candidates_.push_back({id, logit, 0});
    }
  };
  const auto size = static_cast<uint32_t>(logits.size());
  if (mask == nullptr) {
    candidates_.reserve(size);
    add(0, size);
  } else {
    ForEachTrueRun(*mask, size, add);
  }
  if (candidates_.empty()) return NothingAllowed();

  double total = 0;
  for (Candidate& candidate : candidates_) {
    // Equal logits first: an infinite best must not become NaN.
    const float below = candidate.logit == best ? 0 : (candidate.logit - best) / temperature;
    candidate.weight = std::exp(below);
    total += candidate.weight;
  }
  return total;
}

void Sampling::SortTop(size_t count) {
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  count = std::min(count, candidates_.size());
  const auto middle = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
  if (middle != candidates_.end()) {
    std::ranges::nth_element(candidates_, middle, likelier);
  }
  std::sort(candidates_.begin(), middle, likelier);
}

void Sampling::KeepTopK(uint32_t k) {
  if (k == 0) return;
  SortTop(k);
  if (k < candidates_.size()) candidates_.resize(k);
}

void Sampling::KeepTopP(float p) {
  if (p >= 1) return;
  const double enough = std::max(p, 0.0F) * TotalWeight();
  // Most distributions are done within the first few dozen: sort no further than needed.
  for (size_t sorted = 64;; sorted *= 8) {
    SortTop(sorted);
    const size_t end = std::min(sorted, candidates_.size());
    double reached = 0;
    for (size_t i = 0; i < end; ++i) {
      reached += candidates_[i].weight;
      if (reached >= enough) {
        candidates_.resize(i + 1);
        return;
      }
    }
    if (end == candidates_.size()) return;
  }
}

void Sampling::KeepMinP(float p) {
  std::erase_if(candidates_, [p](const Candidate& c) { return c.weight < p && c.weight < 1; });
}

double Sampling::TotalWeight() const {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  return total;
}

}  // namespace pie
