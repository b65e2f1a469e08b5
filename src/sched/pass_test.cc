#include "sched/pass.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/limits.h"
#include "sched/read_cost.h"

namespace pie {
namespace {

using Kind = SampleSpec::Kind;

const BackendInfo kInfo = {.name = "test",
                           .vocab_size = 100,
                           .hidden_size = 8,
                           .page_tokens = 4,
                           .total_pages = 20,
                           .max_batch_tokens = 8,
                           .max_batch_members = 8,
                           .max_positions = 50};

Forward Good() {
  Forward forward;
  forward.tokens = {1, 2, 3};
  forward.positions = {0, 1, 2};
  forward.samples = {{.rows = {2}}};
  return forward;
}

template <class Change>
std::string Fault(Change change) {
  Forward forward = Good();
  change(forward);
  const Status valid = Validate(forward, kInfo);
  return valid ? "none" : valid.error().text;
}

TEST(Validate, LetsGoodPassesThrough) {
  EXPECT_EQ(Fault([](Forward&) {}), "none");
  EXPECT_EQ(Fault([](Forward& f) { f.attention = {{0, 1}, {}, {0, 1, UINT32_MAX, UINT32_MAX}}; }),
            "none");
  EXPECT_EQ(Fault([](Forward& f) { f.logit_mask = {99, 1}; }), "none");
  EXPECT_EQ(Fault([](Forward& f) { f.samples.clear(); }), "none");
  EXPECT_EQ(Fault([](Forward& f) { f.positions = {49, 0, 7}; }), "none");
  EXPECT_EQ(Fault([](Forward& f) { f.samples = {{.kind = Kind::kEmbedding, .rows = {0}}}; }),
            "none");
}

TEST(Validate, RefusesEmbeddingsWhereTheDeviceHasNone) {
  BackendInfo info = kInfo;
  info.hidden_size = 0;
  Forward forward = Good();
  forward.samples = {{.kind = Kind::kEmbedding, .rows = {0}}};
  EXPECT_EQ(Validate(forward, info).error().text, "embedding: the device test gives no embeddings");
}

TEST(Validate, SaysWhatIsWrong) {
  EXPECT_EQ(Fault([](Forward& f) { f.tokens = f.positions = {}; }),
            "empty input: a pass needs at least one token");
  EXPECT_EQ(Fault([](Forward& f) { f.positions = {0, 1}; }),
            "2 positions for 3 tokens: give one position for each token");
  EXPECT_EQ(Fault([](Forward& f) { f.attention = {{0, 1}}; }),
            "1 attention rows for 3 tokens: give one row for each token, or no rows");
  EXPECT_EQ(Fault([](Forward& f) { f.tokens[1] = 100; }),
            "token 100 is not in the vocabulary, whose ids are 0 to 99");
  EXPECT_EQ(Fault([](Forward& f) { f.positions[1] = 50; }),
            "position 50 is past this model's last position, 49");
  EXPECT_EQ(Fault([](Forward& f) { f.tokens.resize(51), f.positions.resize(51); }),
            "the sequence would have 51 tokens; this model takes at most 50");
  EXPECT_EQ(Fault([](Forward& f) { f.logit_mask = {100, 5}; }),
            "the logit mask allows no token: allow at least one");
  EXPECT_EQ(Fault([](Forward& f) { f.samples[0].rows = {3}; }),
            "a sampler reads row 3, but the input has 3 tokens");
  EXPECT_EQ(Fault([](Forward& f) { f.samples = {{.kind = Kind::kLogprobs, .ids = {100}}}; }),
            "token 100 is not in the vocabulary, whose ids are 0 to 99");
  EXPECT_EQ(Fault([](Forward& f) { f.samples[0].temperature = -1; }),
            "the temperature must be 0 or more, not -1");
  EXPECT_EQ(Fault([](Forward& f) { f.samples[0].temperature = std::nanf(""); }),
            "the temperature must be 0 or more, not nan");
  EXPECT_EQ(Fault([](Forward& f) { f.samples[0].p = 1.5F; }), "p must be between 0 and 1, not 1.5");
}

TEST(Validate, HoldsGuestsToTheLimits) {
  const auto draws = [](uint32_t n) {
    return Fault(
        [n](Forward& f) { f.samples = {{.kind = Kind::kMultinomial, .draws = n, .rows = {0}}}; });
  };
  EXPECT_EQ(draws(limits::kSlotsPerPass), "none");
  EXPECT_EQ(draws(UINT32_MAX),
            "a pass gives at most 65536 slots, but this one asks for 4294967295");
  EXPECT_EQ(Fault([](Forward& f) {
              f.samples = {{.kind = Kind::kLogits, .rows = std::vector<uint32_t>(60'000)}};
            }),
            "row 0 is read by more than 64 samplers and probes, which is the limit");
  EXPECT_EQ(Fault([](Forward& f) {
              const SampleSpec all = {.kind = Kind::kLogprobs,
                                      .rows = std::vector<uint32_t>(1'000),
                                      .ids = std::vector<uint32_t>(50'000)};
              f.samples = {all};
            }),
            "a pass gives at most 33554432 numbers, but this one asks for 50000000");
  EXPECT_EQ(Fault([](Forward& f) { f.samples.resize(limits::kSlotsPerPass + 1); }),
            "a pass has at most 65536 samplers and probes, but this one has 65537");
}

TEST(CheckLength, NamesTheLimitThatWasMet) {
  const auto error = [](uint64_t tokens, BackendInfo info) {
    const Status status = CheckLength(tokens, info);
    return status ? "none" : status.error().text;
  };
  EXPECT_EQ(error(50, kInfo), "none");
  EXPECT_EQ(error(51, kInfo), "the sequence would have 51 tokens; this model takes at most 50");
  BackendInfo small = kInfo;
  small.total_pages = 10;
  EXPECT_EQ(error(41, small),
            "the sequence would have 41 tokens; the KV memory holds 40 (10 pages of 4 tokens)");
}

TEST(SizeOfResult, CountsSlotsAndTheNumbersInThem) {
  const std::vector<SampleSpec> samples = {{.kind = Kind::kMultinomial, .draws = 3, .rows = {0, 1}},
                                           {.kind = Kind::kLogits, .rows = {1}},
                                           {.kind = Kind::kDistribution, .k = 5, .rows = {0, 1}},
                                           {.kind = Kind::kDistribution, .k = 0, .rows = {0}},
                                           {.kind = Kind::kLogprobs, .rows = {0}, .ids = {1, 2, 3}},
                                           {.kind = Kind::kEmbedding, .rows = {0, 2}}};
  const ResultSize size = SizeOfResult(samples, kInfo);
  EXPECT_EQ(size.slots, 6U + 1 + 2 + 1 + 1 + 2);
  EXPECT_EQ(size.values, 100U + 2 * 10 + 200 + 3 + 2 * 8);
  EXPECT_EQ(size.bytes(), 13 * sizeof(Slot) + 339 * sizeof(float));
}

TEST(PlaceSlots, PutsChunksTogetherInTheOrderOfTheSamples) {
  ScheduledPass pass;
  pass.forward.tokens.resize(6);
  pass.forward.samples = {
      {.rows = {5, 0}}, {.kind = Kind::kMultinomial, .draws = 2, .rows = {2, 3}}, {.rows = {1}}};
  const auto token = [](uint32_t value) { return Slot(TokenSlot{value}); };
  PlaceSlots(pass, 0, 3, {token(100), token(220), token(221), token(110)});
  PlaceSlots(pass, 3, 3, {token(105), token(230), token(231)});
  std::vector<uint32_t> tokens;
  for (const Slot& slot : pass.slots) tokens.push_back(std::get<TokenSlot>(slot).token);
  EXPECT_EQ(tokens, (std::vector<uint32_t>{105, 100, 220, 221, 230, 231, 110}));
}

TEST(Validate, LimitsTheReadsOfARow) {
  EXPECT_EQ(Fault([](Forward& f) { f.samples.assign(64, {.rows = {2}}); }), "none");
  EXPECT_EQ(Fault([](Forward& f) { f.samples.assign(65, {.rows = {2}}); }),
            "row 2 is read by more than 64 samplers and probes, which is the limit");
  EXPECT_EQ(Fault([](Forward& f) { f.samples = {{.rows = std::vector<uint32_t>(65, 1)}}; }),
            "row 1 is read by more than 64 samplers and probes, which is the limit");
}

TEST(ReadCosts, AreCountedForExpensivePassesOnly) {
  Forward forward = Good();
  EXPECT_TRUE(ReadCosts(forward, 50'000).empty());
  forward.tokens.assign(1'000, 1);
  std::vector<uint32_t> rows(1'000);
  std::iota(rows.rbegin(), rows.rend(), 0);
  forward.samples = {{.kind = Kind::kEntropy, .rows = rows},
                     {.kind = Kind::kTopP, .temperature = 1, .rows = {7}}};
  const std::vector<uint32_t> costs = ReadCosts(forward, 51'200);
  ASSERT_EQ(costs.size(), 1'000u);
  EXPECT_NEAR(costs[0], 2 * 50, 5);
  EXPECT_NEAR(costs[7], 10 * 50, 5);
}

TEST(ReadCosts, LargeMasksAreExpensiveToo) {
  Forward forward = Good();
  forward.tokens.assign(2'500, 1);
  forward.samples.clear();
  forward.attention.assign(2'500, {0, 1});
  EXPECT_TRUE(ReadCosts(forward, 50'000).empty());
  for (size_t row = 0; row < 2'500; ++row) forward.attention[row].assign(row + 1, 1);
  const std::vector<uint32_t> costs = ReadCosts(forward, 50'000);
  ASSERT_EQ(costs.size(), 2'500u);
  EXPECT_EQ(costs[0], 0u);
  EXPECT_NEAR(costs[2'499], 2'500 / 64, 1);
}

TEST(ReadCosts, TheFirstReadingOfARowIsNotFurtherReading) {
  Forward forward = Good();
  forward.tokens.assign(3, 1);
  forward.samples = {{.kind = Kind::kTopP, .temperature = 1, .rows = {0, 1, 2}}};
  EXPECT_EQ(FurtherReading(forward, 51'200), 0u) << "as drafts are verified";
  forward.samples.push_back({.kind = Kind::kEntropy, .rows = {2}});
  EXPECT_NEAR(FurtherReading(forward, 51'200), 2 * 50, 5);
  forward.samples[0].rows = {2, 2};
  EXPECT_NEAR(FurtherReading(forward, 51'200), 10 * 50, 10);
}

}  // namespace
}  // namespace pie
