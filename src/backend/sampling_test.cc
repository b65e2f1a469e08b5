#include "backend/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "base/brle.h"

namespace pie {
namespace {

using Kind = SampleSpec::Kind;
using Logits = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Result<std::vector<Slot>> Read(const SampleSpec& spec, const Logits& logits,
                               const Brle* mask = nullptr, SampleKey key = {}) {
  Sampling sampling;
  std::vector<Slot> slots;
  PIE_RETURN_IF_ERROR(sampling.Read(spec, logits, mask, key, slots));
  return slots;
}

uint32_t Token(const SampleSpec& spec, const Logits& logits, const Brle* mask = nullptr,
               uint64_t seed = 0) {
  return std::get<TokenSlot>(Read(spec, logits, mask, {.seed = seed}).value().at(0)).token;
}

// Softmax of the allowed tokens, in double.
std::vector<double> Softmax(const Logits& logits, float temperature) {
  double max = -kInf;
  for (float logit : logits) max = std::max<double>(max, logit);
  std::vector<double> p;
  double total = 0;
  for (float logit : logits) total += p.emplace_back(std::exp((logit - max) / temperature));
  for (double& each : p) each /= total;
  return p;
}

// Compares counts of draws with `p` by a chi-squared test at p = 0.001. Rare tokens are counted
// together.
void ExpectCounts(const std::vector<int>& counts, const std::vector<double>& p, int draws) {
  double chi2 = 0;
  int degrees = -1;
  double rare = 0;
  int rare_count = 0;
  const auto add = [&](double expected, int count) {
    chi2 += (count - expected) * (count - expected) / expected;
    ++degrees;
  };
  for (size_t id = 0; id < p.size(); ++id) {
    const double expected = p[id] * draws;
    if (p[id] == 0) {
      EXPECT_EQ(counts[id], 0) << "token " << id;
    } else if (expected >= 5) {
      add(expected, counts[id]);
    } else {
      rare += expected;
      rare_count += counts[id];
    }
  }
  if (rare >= 5) add(rare, rare_count);
  // Wilson and Hilferty's approximation of the 99.9 % quantile.
  const double d = std::max(degrees, 1);
  const double quantile = d * std::pow(1 - 2 / (9 * d) + 3.09 * std::sqrt(2 / (9 * d)), 3);
  EXPECT_LT(chi2, quantile) << degrees << " degrees of freedom";
}

// Draws many tokens, one per seed.
void ExpectDraws(const SampleSpec& spec, const Logits& logits, const std::vector<double>& p,
                 const Brle* mask = nullptr) {
  constexpr int kDraws = 20'000;
  std::vector<int> counts(logits.size());
  for (int seed = 0; seed < kDraws; ++seed) {
    ++counts[Token(spec, logits, mask, static_cast<uint64_t>(seed))];
  }
  ExpectCounts(counts, p, kDraws);
}

// Keeps the probabilities of the ids in `keep` and renormalises.
std::vector<double> Keep(std::vector<double> p, const std::vector<uint32_t>& keep) {
  double total = 0;
  for (size_t id = 0; id < p.size(); ++id) {
    if (std::ranges::find(keep, id) == keep.end()) p[id] = 0;
    total += p[id];
  }
  for (double& each : p) each /= total;
  return p;
}

const Logits kLogits = {1.0F, 3.0F, 2.0F, -1.0F, 2.5F, 0.0F};  // descending order: 1, 4, 2, 0, 5, 3

TEST(Sampling, TemperatureZeroIsGreedyForEverySampler) {
  for (Kind kind : {Kind::kMultinomial, Kind::kTopK, Kind::kTopP, Kind::kMinP, Kind::kTopKTopP}) {
    for (float temperature : {0.0F, -1.0F, kNan}) {
      const SampleSpec spec = {.kind = kind, .temperature = temperature, .k = 3, .p = 0.9F};
      EXPECT_EQ(Token(spec, kLogits), 1U);
    }
  }
}

TEST(Sampling, TiesGoToTheLowestId) {
  EXPECT_EQ(Token({}, {0, 5, 5, 5}), 1U);
  const Brle mask = {2, 2};
  EXPECT_EQ(Token({}, {0, 5, 5, 5}, &mask), 2U);
  const SampleSpec spec = {.kind = Kind::kTopK, .temperature = 1, .k = 1};
  EXPECT_EQ(Token(spec, {0, 5, 5, 5}), 1U);
}

TEST(Sampling, ArgmaxFindsTheLargestWhereverItIs) {
  std::mt19937 random(3);
  for (size_t size : {1, 7, 8, 9, 16, 262, 1000}) {
    Logits logits(size);
    for (float& logit : logits) logit = static_cast<float>(random() % 50);
    const auto best = std::ranges::max_element(logits) - logits.begin();
    EXPECT_EQ(Argmax(logits, nullptr), best);
  }
  EXPECT_EQ(Argmax(Logits{kNan, -kInf, -5, kNan}, nullptr), 2U);
  EXPECT_EQ(Argmax(Logits{kNan, -kInf}, nullptr), std::nullopt);
  EXPECT_EQ(Argmax(Logits{1, kInf, 2}, nullptr), 1U);
  EXPECT_EQ(Argmax({}, nullptr), std::nullopt);
}

TEST(Sampling, MasksThatAllowNothingFail) {
  for (const Brle& mask :
       {Brle{}, Brle{6}, Brle{6, 10}, Brle{UINT32_MAX, UINT32_MAX}, Brle{0, 0}}) {
    for (float temperature : {0.0F, 1.0F}) {
      for (Kind kind : {Kind::kMultinomial, Kind::kTopP, Kind::kDistribution}) {
        const auto slots = Read({.kind = kind, .temperature = temperature}, kLogits, &mask);
        ASSERT_FALSE(slots);
        EXPECT_EQ(slots.error().code, Code::kInvalid);
      }
    }
  }
}

TEST(Sampling, MultinomialFollowsTheDistribution) {
  for (float temperature : {0.5F, 1.0F, 3.0F}) {
    const SampleSpec spec = {.kind = Kind::kMultinomial, .temperature = temperature};
    ExpectDraws(spec, kLogits, Softmax(kLogits, temperature));
  }
}

TEST(Sampling, MultinomialFollowsTheMask) {
  const Brle mask = {0, 1, 1, 2};
  ExpectDraws({.kind = Kind::kMultinomial, .temperature = 1}, kLogits,
              Keep(Softmax(kLogits, 1), {0, 2, 3}), &mask);
}

TEST(Sampling, DrawsAreIndependentAndFollowTheDistribution) {
  const SampleSpec spec = {.kind = Kind::kMultinomial, .temperature = 1, .draws = 20'000};
  const auto slots = Read(spec, kLogits, nullptr, {.seed = 5}).value();
  ASSERT_EQ(slots.size(), 20'000U);
  const auto p = Softmax(kLogits, 1);
  std::vector<int> counts(kLogits.size());
  std::vector<std::vector<int>> pairs(kLogits.size(), std::vector<int>(kLogits.size()));
  for (size_t i = 0; i < slots.size(); ++i) {
    const uint32_t token = std::get<TokenSlot>(slots[i]).token;
    ++counts[token];
    if (i > 0) ++pairs[std::get<TokenSlot>(slots[i - 1]).token][token];
  }
  ExpectCounts(counts, p, 20'000);
  // The token after a given token has the same distribution.
  for (size_t id = 0; id < p.size(); ++id) {
    if (counts[id] > 200)
      ExpectCounts(pairs[id], p, std::reduce(pairs[id].begin(), pairs[id].end()));
  }
}

TEST(Sampling, ZeroDrawsCountAsOne) {
  const SampleSpec spec = {.kind = Kind::kMultinomial, .temperature = 0, .draws = 0};
  EXPECT_EQ(Read(spec, kLogits)->size(), 1U);
  EXPECT_EQ(SlotsPerRow(spec), 1U);
  EXPECT_EQ(SlotsPerRow({.kind = Kind::kTopK, .draws = 5}), 1U);
}

TEST(Sampling, TopKKeepsTheLikeliest) {
  const auto p = Softmax(kLogits, 2);
  ExpectDraws({.kind = Kind::kTopK, .temperature = 2, .k = 3}, kLogits, Keep(p, {1, 4, 2}));
  ExpectDraws({.kind = Kind::kTopK, .temperature = 2, .k = 0}, kLogits, p);
  ExpectDraws({.kind = Kind::kTopK, .temperature = 2, .k = 100}, kLogits, p);
}

TEST(Sampling, TopPKeepsTheSmallestSetThatReachesP) {
  const auto p = Softmax(kLogits, 1);  // 0.49 0.30 0.18 …: two tokens do not reach 0.8
  ASSERT_LT(p[1] + p[4], 0.8);
  ASSERT_GT(p[1] + p[4] + p[2], 0.8);
  ExpectDraws({.kind = Kind::kTopP, .temperature = 1, .p = 0.8F}, kLogits, Keep(p, {1, 4, 2}));
  ExpectDraws({.kind = Kind::kTopP, .temperature = 1, .p = 1}, kLogits, p);
  ExpectDraws({.kind = Kind::kTopP, .temperature = 1, .p = 0}, kLogits, Keep(p, {1}));
}

TEST(Sampling, TopPKeepsHalfOfManyEqualTokens) {
  // With 5,000 equal tokens, p = 0.5 keeps half of them, those with the lowest ids.
  const Logits flat(5000, 1.0F);
  const SampleSpec spec = {.kind = Kind::kTopP, .temperature = 1, .p = 0.5F};
  std::map<uint32_t, int> seen;
  for (uint64_t seed = 0; seed < 500; ++seed) ++seen[Token(spec, flat, nullptr, seed)];
  EXPECT_LT(seen.rbegin()->first, 2500U);
  EXPECT_GT(seen.rbegin()->first, 2400U);
}

TEST(Sampling, MinPKeepsTokensNearTheBest) {
  const auto p = Softmax(kLogits, 1);
  // 0.3 of the best probability is a logit at most 1.2 below the best: tokens 1, 4 and 2.
  ExpectDraws({.kind = Kind::kMinP, .temperature = 1, .p = 0.3F}, kLogits, Keep(p, {1, 4, 2}));
  ExpectDraws({.kind = Kind::kMinP, .temperature = 1, .p = 0}, kLogits, p);
  ExpectDraws({.kind = Kind::kMinP, .temperature = 1, .p = 5}, kLogits, Keep(p, {1}));
}

TEST(Sampling, TopKTopPTruncatesThenRenormalises) {
  // The first token has 0.51 of the three likeliest but 0.49 of all, so p = 0.5 keeps it alone.
  const auto p = Softmax(kLogits, 1);
  ASSERT_LT(p[1], 0.5);
  ExpectDraws({.kind = Kind::kTopKTopP, .temperature = 1, .k = 3, .p = 0.5F}, kLogits,
              Keep(p, {1}));
  ExpectDraws({.kind = Kind::kTopKTopP, .temperature = 1, .k = 2, .p = 0.99F}, kLogits,
              Keep(p, {1, 4}));
}

// The distribution that a sampler must draw from by its definition: sorts everything, in double.
std::vector<double> Defined(const SampleSpec& spec, const Logits& logits, const Brle* mask) {
  std::vector<double> p = Softmax(logits, spec.temperature);
  std::vector<uint32_t> order;
  for (uint32_t id = 0; id < p.size(); ++id) {
    if (mask == nullptr || BrleTest(*mask, id)) order.push_back(id);
  }
  p = Keep(p, order);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return p[a] > p[b]; });
  const bool by_k = spec.kind == Kind::kTopK || spec.kind == Kind::kTopKTopP;
  if (by_k && spec.k != 0 && spec.k < order.size()) {
    order.resize(spec.k);
    p = Keep(p, order);
  }
  if (spec.kind == Kind::kTopP || spec.kind == Kind::kTopKTopP) {
    double sum = 0;
    size_t count = 0;
    while (count < order.size() && sum < spec.p) sum += p[order[count++]];
    order.resize(std::max<size_t>(count, 1));
  }
  if (spec.kind == Kind::kMinP) {
    const double least = spec.p * p[order[0]];
    std::erase_if(order, [&](uint32_t id) { return p[id] < least; });
  }
  return Keep(p, order);
}

TEST(Sampling, EverySamplerFollowsItsDefinitionOverManyTokens) {
  std::mt19937 random(17);
  std::normal_distribution<float> normal(0, 2);
  Logits logits(300);
  for (float& logit : logits) logit = normal(random);
  const Brle mask = {3, 120, 40, 90};
  for (const Brle* m : {static_cast<const Brle*>(nullptr), &mask}) {
    for (const float temperature : {0.7F, 1.5F}) {
      for (const SampleSpec& spec : std::initializer_list<SampleSpec>{
               {.kind = Kind::kMultinomial, .temperature = temperature},
               {.kind = Kind::kTopK, .temperature = temperature, .k = 40},
               {.kind = Kind::kTopP, .temperature = temperature, .p = 0.9F},
               {.kind = Kind::kMinP, .temperature = temperature, .p = 0.05F},
               {.kind = Kind::kTopKTopP, .temperature = temperature, .k = 50, .p = 0.8F}}) {
        SCOPED_TRACE(static_cast<int>(spec.kind));
        ExpectDraws(spec, logits, Defined(spec, logits, m), m);
      }
    }
  }
}

TEST(Sampling, ProbesAgreeWithTheDefinitionOverManyTokens) {
  std::mt19937 random(23);
  std::normal_distribution<float> normal(0, 3);
  Logits logits(5000);
  for (float& logit : logits) logit = normal(random);
  const auto p = Softmax(logits, 1);
  const auto whole = Read({.kind = Kind::kDistribution, .temperature = 1, .k = 0}, logits).value();
  const auto& all = std::get<DistributionSlot>(whole[0]);
  ASSERT_EQ(all.ids.size(), logits.size());
  EXPECT_TRUE(std::ranges::is_sorted(all.probs, std::greater{}));
  std::vector<uint32_t> ids = all.ids;
  std::ranges::sort(ids);
  for (uint32_t id = 0; id < ids.size(); ++id) ASSERT_EQ(ids[id], id);
  for (size_t i = 0; i < all.ids.size(); ++i) {
    ASSERT_NEAR(all.probs[i], p[all.ids[i]], 1e-6 * p[all.ids[i]] + 1e-9);
  }
  double entropy = 0;
  for (const double each : p) entropy -= each * std::log(each);
  const auto slots = Read({.kind = Kind::kEntropy}, logits).value();
  EXPECT_NEAR(std::get<EntropySlot>(slots[0]).entropy, entropy, 1e-4);
  for (const uint32_t id : {0U, 77U, 4999U}) {
    const auto one = Read({.kind = Kind::kLogprobs, .ids = {id}}, logits).value();
    EXPECT_NEAR(std::get<LogprobsSlot>(one[0]).logprobs.at(0), std::log(p[id]), 1e-4);
  }
  const auto raw = Read({.kind = Kind::kLogits}, logits).value();
  EXPECT_EQ(std::get<LogitsSlot>(raw[0]).logits, logits);
}

TEST(Sampling, ChoicesDependOnlyOnSeedSpecAndRow) {
  const SampleSpec spec = {.kind = Kind::kMultinomial, .temperature = 5, .draws = 64};
  const auto draw = [&](SampleKey key) {
    std::vector<uint32_t> tokens;
    const auto slots = Read(spec, kLogits, nullptr, key).value();
    for (const Slot& slot : slots) tokens.push_back(std::get<TokenSlot>(slot).token);
    return tokens;
  };
  const auto base = draw({1, 2, 3});
  EXPECT_EQ(base, draw({1, 2, 3}));
  EXPECT_NE(base, draw({2, 2, 3}));
  EXPECT_NE(base, draw({1, 3, 3}));
  EXPECT_NE(base, draw({1, 2, 4}));
}

TEST(Sampling, DistributionIsSortedScaledAndMasked) {
  const auto p = Softmax(kLogits, 2);
  const auto slots = Read({.kind = Kind::kDistribution, .temperature = 2, .k = 3}, kLogits).value();
  const auto& top = std::get<DistributionSlot>(slots[0]);
  EXPECT_EQ(top.ids, (std::vector<uint32_t>{1, 4, 2}));
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(top.probs[i], p[top.ids[i]], 1e-6);

  const auto all = Read({.kind = Kind::kDistribution, .temperature = 2, .k = 0}, kLogits).value();
  const auto& whole = std::get<DistributionSlot>(all[0]);
  EXPECT_EQ(whole.ids, (std::vector<uint32_t>{1, 4, 2, 0, 5, 3}));
  double total = 0;
  for (float prob : whole.probs) total += prob;
  EXPECT_NEAR(total, 1, 1e-6);

  const Brle mask = {0, 1, 1, 2};
  const auto masked =
      Read({.kind = Kind::kDistribution, .temperature = 2, .k = 0}, kLogits, &mask).value();
  const auto& allowed = std::get<DistributionSlot>(masked[0]);
  EXPECT_EQ(allowed.ids, (std::vector<uint32_t>{2, 0, 3}));
  EXPECT_NEAR(allowed.probs[0], Keep(p, {0, 2, 3})[2], 1e-6);
}

TEST(Sampling, DistributionAtTemperatureZeroIsCertain) {
  const auto slots = Read({.kind = Kind::kDistribution, .temperature = 0, .k = 2}, kLogits).value();
  const auto& top = std::get<DistributionSlot>(slots[0]);
  EXPECT_EQ(top.ids, (std::vector<uint32_t>{1, 4}));
  EXPECT_EQ(top.probs, (std::vector<float>{1, 0}));
}

TEST(Sampling, GreedyArgmaxAndDistributionAgree) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    Logits logits(40);
    for (float& logit : logits) logit = static_cast<float>(random() % 12);  // produces many ties
    const auto begin = static_cast<uint32_t>(random() % 20);
    const Brle mask = {begin, 10, 3, 2};
    for (const Brle* m : {static_cast<const Brle*>(nullptr), &mask}) {
      const uint32_t best = *Argmax(logits, m);
      EXPECT_EQ(Token({}, logits, m), best);
      for (uint32_t k : {0U, 1U, 5U}) {
        const SampleSpec spec = {.kind = Kind::kDistribution, .temperature = 1, .k = k};
        const auto slots = Read(spec, logits, m).value();
        EXPECT_EQ(std::get<DistributionSlot>(slots[0]).ids[0], best);
      }
    }
  }
}

TEST(Sampling, ProbesIgnoreMaskAndTemperature) {
  const Brle mask = {0, 1};  // not applied to probes
  const auto p = Softmax(kLogits, 1);
  double entropy = 0;
  for (double each : p) entropy -= each * std::log(each);

  const auto logprobs =
      Read({.kind = Kind::kLogprobs, .temperature = 9, .ids = {3, 1, 3}}, kLogits, &mask).value();
  const auto& values = std::get<LogprobsSlot>(logprobs[0]).logprobs;
  ASSERT_EQ(values.size(), 3U);
  EXPECT_NEAR(values[0], std::log(p[3]), 1e-5);
  EXPECT_NEAR(values[1], std::log(p[1]), 1e-5);
  EXPECT_EQ(values[0], values[2]);

  const auto slots = Read({.kind = Kind::kEntropy, .temperature = 9}, kLogits, &mask).value();
  EXPECT_NEAR(std::get<EntropySlot>(slots[0]).entropy, entropy, 1e-5);
  const auto raw = Read({.kind = Kind::kLogits, .temperature = 9}, kLogits, &mask).value();
  EXPECT_EQ(std::get<LogitsSlot>(raw[0]).logits, kLogits);
}

TEST(Sampling, ExtremeLogitsGiveFiniteResults) {
  const Logits wide = {1e30F, -1e30F, 0, -kInf, kNan};
  EXPECT_EQ(Token({.kind = Kind::kMultinomial, .temperature = 1e-30F}, wide), 0U);
  EXPECT_EQ(Token({.kind = Kind::kMultinomial, .temperature = 1}, {0, kInf, 1}), 1U);
  EXPECT_LT(Token({.kind = Kind::kTopP, .temperature = kInf, .p = 0.9F}, wide), 3U);
  const auto slots = Read({.kind = Kind::kEntropy}, {1000, -1000, -kInf}).value();
  EXPECT_EQ(std::get<EntropySlot>(slots[0]).entropy, 0);
  const auto flat = Read({.kind = Kind::kEntropy}, Logits(8, -7.0F)).value();
  EXPECT_NEAR(std::get<EntropySlot>(flat[0]).entropy, std::log(8), 1e-6);
}

// A pass that asks for them is refused before it is queued (sched/pass.cc).
TEST(SamplingDeathTest, WhatNoValidPassAsksForStopsTheProcess) {
  EXPECT_DEATH((void)Read({.kind = Kind::kLogprobs, .ids = {6}}, kLogits), "broken invariant");
  EXPECT_DEATH((void)Read({.kind = Kind::kEmbedding}, kLogits), "broken invariant");
}

std::vector<float> NoEmbedding(uint32_t) {
  ADD_FAILURE() << "no sample of the test reads an embedding";
  return {};
}

TEST(Sampling, ReadsOnlyTheRowsOfAChunkAndEachOnce) {
  const std::vector<SampleSpec> samples = {{.rows = {0, 5, 6}},
                                           {.kind = Kind::kEntropy, .rows = {6, 9}}};
  const Batch::Member member = {.rows = 4, .pass_row = 4, .samples = &samples};
  std::vector<uint32_t> asked;
  std::vector<Slot> slots;
  Sampling sampling;
  const Status status = sampling.ReadMember(
      member,
      [&](uint32_t row) {
        asked.push_back(row);
        return std::span<const float>(kLogits);
      },
      NoEmbedding, slots);
  EXPECT_TRUE(status);
  EXPECT_EQ(asked, (std::vector<uint32_t>{1, 2}));  // rows 5 and 6 of the pass
  ASSERT_EQ(slots.size(), 3U);
  EXPECT_TRUE(std::holds_alternative<EntropySlot>(slots[2]));
}

// A guest can name the rows in any order and as often as it likes. A device that computes logits
// for a window of rows must still be asked for each row only once.
TEST(Sampling, AsksForEachRowOnceInAscendingOrderWhateverOrderTheSamplesNameThem) {
  const std::vector<SampleSpec> samples = {
      {.kind = Kind::kMultinomial, .temperature = 0, .draws = 2, .rows = {3, 0, 3}},
      {.kind = Kind::kEntropy, .rows = {2, 0}}};
  const Batch::Member member = {.rows = 4, .samples = &samples};
  std::vector<uint32_t> asked;
  std::vector<Slot> slots;
  Sampling sampling;
  std::vector<Logits> logits(4, Logits(8, 0.0F));
  for (uint32_t row = 0; row < 4; ++row) logits[row][row] = 9;  // row r prefers token r
  const Status status = sampling.ReadMember(
      member,
      [&](uint32_t row) {
        asked.push_back(row);
        return std::span<const float>(logits[row]);
      },
      NoEmbedding, slots);
  EXPECT_TRUE(status);
  EXPECT_EQ(asked, (std::vector<uint32_t>{0, 2, 3}));
  ASSERT_EQ(slots.size(), 8U);
  const std::vector<uint32_t> tokens = {3, 3, 0, 0, 3, 3};
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(std::get<TokenSlot>(slots[i]).token, tokens[i]) << i;
  }
  EXPECT_TRUE(std::holds_alternative<EntropySlot>(slots[6]));
  EXPECT_TRUE(std::holds_alternative<EntropySlot>(slots[7]));
}

// The output layer is the most expensive part of a row, so an embedding alone must not run it.
TEST(Sampling, ReadsEmbeddingsWithoutLogits) {
  const std::vector<SampleSpec> samples = {{.kind = Kind::kEmbedding, .rows = {3, 1}},
                                           {.kind = Kind::kEntropy, .rows = {2, 1}},
                                           {.kind = Kind::kEmbedding, .rows = {2}}};
  const Batch::Member member = {.rows = 4, .samples = &samples};
  std::vector<uint32_t> asked;
  std::vector<Slot> slots;
  Sampling sampling;
  const Status status = sampling.ReadMember(
      member,
      [&](uint32_t row) {
        asked.push_back(row);
        return std::span<const float>(kLogits);
      },
      [](uint32_t row) { return std::vector<float>{static_cast<float>(row), 0.5F}; }, slots);
  EXPECT_TRUE(status);
  EXPECT_EQ(asked, (std::vector<uint32_t>{1, 2}));
  ASSERT_EQ(slots.size(), 5U);
  const auto state = [&](size_t slot) { return std::get<EmbeddingSlot>(slots[slot]).state; };
  EXPECT_EQ(state(0), (std::vector<float>{3, 0.5F}));
  EXPECT_EQ(state(1), (std::vector<float>{1, 0.5F}));
  EXPECT_TRUE(std::holds_alternative<EntropySlot>(slots[2]));
  EXPECT_TRUE(std::holds_alternative<EntropySlot>(slots[3]));
  EXPECT_EQ(state(4), (std::vector<float>{2, 0.5F}));
}

}  // namespace
}  // namespace pie
