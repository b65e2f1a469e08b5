#include "backend/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/brle.h"
#include "base/random.h"

namespace pie {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Returns a bound below which no logit has the weight `least`. It is slightly too low, to allow for
// rounding.
float LeastLogit(float best, float temperature, double least) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  least = std::max<double>(least, std::numeric_limits<float>::min());
  const double below = std::log(std::min(least, 1.0)) - 1e-4;
  const double logit = best + below * temperature - 1e-6 * std::abs(best);
  return logit > kLowest ? static_cast<float>(logit) : kLowest;
}

// A margin for rounding, whatever the order in which weights are added.
constexpr double kSurely = 1 + 1e-9;

}  // namespace

std::unexpected<Error> NothingAllowed() {
  return Fail(Code::kInvalid, "the logit mask allows no token: allow at least one");
}

std::optional<uint32_t> Argmax(std::span<const float> logits, AllowedTokens mask) {
  if (!mask.bits.empty()) return ArgmaxAllowed(logits, mask.bits);
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
  if (mask.all()) {
    consider(0, size);
  } else {
    ForEachTrueRun(*mask.runs, size, consider);
  }
  return id;
}

uint32_t SlotsPerRow(const SampleSpec& spec) {
  return spec.kind == SampleSpec::Kind::kMultinomial ? std::max(spec.draws, 1U) : 1;
}

bool Sampling::PlanReads(const Batch::Member& member) {
  reads_.clear();
  size_t slot = 0;
  for (uint32_t spec = 0; spec < member.samples->size(); ++spec) {
    const SampleSpec& sample = (*member.samples)[spec];
    for (uint32_t row : sample.rows) {
      if (row < member.pass_row || row - member.pass_row >= member.rows) continue;
      reads_.push_back({row, spec, slot});
      slot += SlotsPerRow(sample);
    }
  }
  if (std::ranges::is_sorted(reads_, {}, &PlannedRead::row)) return true;
  std::ranges::stable_sort(reads_, {}, &PlannedRead::row);
  return false;
}

Result<AllowedTokens> Sampling::MaskOf(const Batch::Member& member, uint32_t row) {
  if (member.masks == nullptr) return AllowedTokens(member.logit_mask);
  const bool is_first = member.draws == nullptr || row < member.first_draw;
  return AllowedTokens(PIE_TRY(member.masks->Bits(is_first ? 0 : row - member.first_draw)));
}

SampleKey Sampling::KeyOf(const Batch::Member& member, const PlannedRead& read) {
  if (member.draws == nullptr || read.row < member.first_draw) {
    return {member.seed, read.spec, read.row};
  }
  const DrawKey& key = (*member.draws)[read.row - member.first_draw];
  return {key.seed, read.spec, key.row};
}

const Sampling::LogSum& Sampling::LogSumOf(std::span<const float> logits) {
  if (log_sum_) return *log_sum_;
  LogSum s{Max(logits), 0, 0};
  for (float logit : logits) {
    const double below = static_cast<double>(logit) - s.max;
    if (!(below > -745)) continue;  // exp would give 0; a NaN is left out
    const double e = std::exp(below);
    s.sum += e;
    s.weighted_sum += e * below;
  }
  return log_sum_.emplace(s);
}

Status Sampling::Read(const SampleSpec& spec, std::span<const float> logits, AllowedTokens mask,
                      SampleKey key, std::vector<Slot>& slots) {
  log_sum_.reset();
  return ReadRow(spec, logits, mask, key, slots);
}

Status Sampling::ReadRow(const SampleSpec& spec, std::span<const float> logits, AllowedTokens mask,
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
      const LogSum& s = LogSumOf(logits);
      const double log_total = s.max + std::log(s.sum);
      LogprobsSlot slot;
      slot.logprobs.reserve(spec.ids.size());
      for (uint32_t id : spec.ids) {
        PIE_CHECK(id < logits.size());
        slot.logprobs.push_back(static_cast<float>(logits[id] - log_total));
      }
      slots.emplace_back(std::move(slot));
      return {};
    }
    case Kind::kEntropy: {
      const LogSum& s = LogSumOf(logits);
      const double entropy = std::log(s.sum) - s.weighted_sum / s.sum;
      slots.emplace_back(EntropySlot{static_cast<float>(std::max(entropy, 0.0))});
      return {};
    }
    case Kind::kEmbedding:
      break;
  }
  PIE_CHECK(false && "a sample of a kind that no validated pass has");
  return {};
}

Status Sampling::Sample(const SampleSpec& spec, std::span<const float> logits, AllowedTokens mask,
                        SampleKey key, std::vector<Slot>& slots) {
  using Kind = SampleSpec::Kind;
  const uint32_t draws = SlotsPerRow(spec);
  if (!(spec.temperature > 0)) {
    const std::optional<uint32_t> best = Argmax(logits, mask);
    if (!best) return NothingAllowed();
    for (uint32_t i = 0; i < draws; ++i) slots.emplace_back(TokenSlot{*best});
    return {};
  }

  const std::span<const float> allowed = Allowed(logits, mask);
  const CounterRng rng{Mix(key.seed, key.spec, key.row)};
  const auto draw_all = [&](double total, auto&& pick) {
    for (uint32_t draw = 0; draw < draws; ++draw) {
      slots.emplace_back(TokenSlot{pick(rng.Double(draw) * total)});
    }
  };

  const bool by_k = (spec.kind == Kind::kTopK || spec.kind == Kind::kTopKTopP) && spec.k > 0;
  const bool by_p = spec.kind == Kind::kTopP || spec.kind == Kind::kTopKTopP;
  if (by_k) {
    const float best = Max(allowed);
    if (!(best > kNone)) return NothingAllowed();
    CollectTopK(allowed, best, spec.temperature, spec.k);
    if (by_p && spec.p < 1) Cut(std::max(spec.p, 0.0F) * TotalWeight());
  } else {
    const Softmax row = Weigh(allowed, InverseOf(spec.temperature), blocks_);
    if (!(row.best > kNone)) return NothingAllowed();
    if (by_p && spec.p < 1) {
      CollectTopP(allowed, row, spec.temperature, spec.p);
    } else if (spec.kind == Kind::kMinP) {
      CollectMinP(allowed, row.best, spec.temperature, std::min(spec.p, 1.0F));
    } else {
      draw_all(row.total, [&](double left) { return PickAny(allowed, spec.temperature, left); });
      return {};
    }
  }
  draw_all(TotalWeight(), [&](double left) { return PickCandidate(left); });
  return {};
}

Status Sampling::Distribution(const SampleSpec& spec, std::span<const float> logits,
                              AllowedTokens mask, std::vector<Slot>& slots) {
  const bool greedy = !(spec.temperature > 0);
  const float temperature = greedy ? 1 : spec.temperature;
  const std::span<const float> allowed = Allowed(logits, mask);
  const auto [best, total] = Weigh(allowed, InverseOf(temperature), blocks_);
  if (!(best > kNone)) return NothingAllowed();
  CollectTopK(allowed, best, temperature, spec.k);
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

std::span<const float> Sampling::Allowed(std::span<const float> logits, AllowedTokens mask) {
  if (mask.all()) return logits;
  if (!mask.bits.empty()) {
    allowed_.resize(logits.size());
    KeepAllowed(logits, mask.bits, allowed_.data());
    return allowed_;
  }
  allowed_.assign(logits.size(), kNone);
  ForEachTrueRun(
      *mask.runs, static_cast<uint32_t>(logits.size()), [&](uint32_t begin, uint32_t end) {
        std::copy(logits.begin() + begin, logits.begin() + end, allowed_.begin() + begin);
      });
  return allowed_;
}

void Sampling::CollectTopK(std::span<const float> logits, float best, float temperature,
                           uint32_t k) {
  // `least` is the k-th largest of the blocks' maxima: at least k logits reach it, so no smaller
  // logit is among the k largest.
  float least = std::numeric_limits<float>::lowest();
  BlockMaxima(logits, maxima_);
  if (k > 0 && k < maxima_.size()) {
    std::ranges::nth_element(maxima_, maxima_.begin() + (k - 1), std::greater());
    least = std::max(least, maxima_[k - 1]);
  }
  candidates_.clear();
  const float inverse = InverseOf(temperature);
  ForEachAtLeast(logits, least, [&](size_t id) {
    const float logit = logits[id];
    candidates_.push_back({static_cast<uint32_t>(id), logit, WeightOf(logit, best, inverse)});
  });
  if (k > 0 && k < candidates_.size()) {
    const auto middle = candidates_.begin() + k;
    std::ranges::nth_element(candidates_, middle, Likelier);
    candidates_.erase(middle, candidates_.end());
  }
  std::ranges::sort(candidates_, Likelier);
}

void Sampling::CollectTopP(std::span<const float> logits, Softmax row, float temperature, float p) {
  const double enough = std::max(p, 0.0F) * row.total;
  // If all lighter tokens together have at most the share 1 - p, none of them is needed.
  const double share = 1 - std::max(static_cast<double>(p), 0.0);
  const float last =
      LeastLogit(row.best, temperature, share * row.total / static_cast<double>(logits.size()));
  // Usually far fewer tokens reach p, so the search starts near the best and widens until they do.
  for (float depth = 4;; depth *= 2) {
    const float least = std::max(row.best - depth * temperature, last);
    CollectAtLeast(logits, row.best, temperature, least);
    if (!(least > last) || TotalWeight() > enough * kSurely) break;
  }
  std::ranges::sort(candidates_, Likelier);
  Cut(enough);
}

void Sampling::CollectMinP(std::span<const float> logits, float best, float temperature, float p) {
  const float least = std::max(p, std::numeric_limits<float>::min());  // excludes weights of 0
  CollectAtLeast(logits, best, temperature, LeastLogit(best, temperature, least));
  std::erase_if(candidates_, [&](const Candidate& candidate) { return candidate.weight < least; });
}

void Sampling::CollectAtLeast(std::span<const float> logits, float best, float temperature,
                              float least) {
  candidates_.clear();
  const float inverse = InverseOf(temperature);
  for (size_t block = 0; block < blocks_.size(); ++block) {
    if (!(blocks_[block].max >= least)) continue;
    const size_t begin = block * kSoftmaxBlock;
    const size_t count = std::min(kSoftmaxBlock, logits.size() - begin);
    ForEachAtLeast(logits.subspan(begin, count), least, [&](size_t i) {
      const float logit = logits[begin + i];
      candidates_.push_back(
          {static_cast<uint32_t>(begin + i), logit, WeightOf(logit, best, inverse)});
    });
  }
}

void Sampling::Cut(double enough) {
  double reached = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    reached += candidates_[i].weight;
    if (reached < enough) continue;
    candidates_.resize(i + 1);
    return;
  }
}

double Sampling::TotalWeight() const {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  return total;
}

uint32_t Sampling::PickCandidate(double left) const {
  uint32_t token = candidates_.front().id;
  for (const Candidate& candidate : candidates_) {
    if (candidate.weight <= 0) continue;
    token = candidate.id;  // if rounding leaves a remainder, the last token is taken
    left -= candidate.weight;
    if (left < 0) break;
  }
  return token;
}

uint32_t Sampling::PickAny(std::span<const float> logits, float temperature, double left) const {
  size_t last = 0;  // the last index that has any weight
  for (size_t block = 0; block < blocks_.size(); ++block) {
    if (blocks_[block].share <= 0) continue;
    last = block;
    if (left < blocks_[block].share) break;
    left -= blocks_[block].share;
  }
  const size_t begin = last * kSoftmaxBlock;
  const auto block = logits.subspan(begin, std::min(kSoftmaxBlock, logits.size() - begin));
  float weights[kSoftmaxBlock];
  WeighEach(block, blocks_[last].max, InverseOf(temperature), weights);
  left /= blocks_[last].scale;
  size_t token = begin;
  for (size_t i = 0; i < block.size(); ++i) {
    if (weights[i] <= 0) continue;
    token = begin + i;
    left -= weights[i];
    if (left < 0) break;
  }
  return static_cast<uint32_t>(token);
}

}  // namespace pie
