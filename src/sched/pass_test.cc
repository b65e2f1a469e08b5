#include "sched/pass.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace pie {
namespace {

using Kind = SampleSpec::Kind;

const BackendInfo kInfo = {.name = "test",
                           .vocab_size = 100,
                           .page_tokens = 4,
                           .total_pages = 10,
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
  const auto fault = FindFault(forward, kInfo);
  return fault ? fault->text : "none";
}

TEST(FindFault, LetsGoodPassesThrough) {
  EXPECT_EQ(Fault([](Forward&) {}), "none");
  EXPECT_EQ(Fault([](Forward& f) { f.attention = {{0, 1}, {}, {0, 1, UINT32_MAX, UINT32_MAX}}; }),
            "none");
  EXPECT_EQ(Fault([](Forward& f) { f.logit_mask = {99, 1}; }), "none");
  EXPECT_EQ(Fault([](Forward& f) { f.samples.clear(); }), "none");
  EXPECT_EQ(Fault([](Forward& f) { f.positions = {49, 0, 7}; }), "none");
}

TEST(FindFault, SaysWhatIsWrong) {
  EXPECT_EQ(Fault([](Forward& f) { f.tokens = f.positions = {}; }),
            "empty input: a pass needs at least one token");
  EXPECT_EQ(Fault([](Forward& f) { f.positions = {0, 1}; }),
            "2 positions for 3 tokens: give one a token");
  EXPECT_EQ(Fault([](Forward& f) { f.attention = {{0, 1}}; }),
            "1 attention rows for 3 tokens: give one a token, or none");
  EXPECT_EQ(Fault([](Forward& f) { f.tokens[1] = 100; }),
            "token 100 is outside the vocabulary of 100 tokens");
  EXPECT_EQ(Fault([](Forward& f) { f.positions[1] = 50; }),
            "position 50 is past this model's last one, 49");
  EXPECT_EQ(Fault([](Forward& f) { f.tokens.resize(51), f.positions.resize(51); }),
            "51 tokens in one pass: this model takes at most 50");
  EXPECT_EQ(Fault([](Forward& f) { f.logit_mask = {100, 5}; }),
            "the logit mask allows no token: allow at least one");
  EXPECT_EQ(Fault([](Forward& f) { f.samples[0].rows = {3}; }),
            "a sampler reads row 3, the input has 3 tokens");
  EXPECT_EQ(Fault([](Forward& f) { f.samples = {{.kind = Kind::kLogprobs, .ids = {100}}}; }),
            "logprob of token 100: the vocabulary has 100 tokens");
  EXPECT_EQ(Fault([](Forward& f) { f.samples = {{.kind = Kind::kEmbedding, .rows = {0}}}; }),
            "embeddings are not available on this device");
}

TEST(FindFault, HoldsGuestsToTheLimits) {
  const auto draws = [](uint32_t n) {
    return Fault(
        [n](Forward& f) { f.samples = {{.kind = Kind::kMultinomial, .draws = n, .rows = {0}}}; });
  };
  EXPECT_EQ(draws(limits::kSlotsPerPass), "none");
  EXPECT_EQ(draws(UINT32_MAX), "a pass that reads 4294967295 slots: at most 65536 are possible");
  EXPECT_EQ(Fault([](Forward& f) {
              f.samples = {{.kind = Kind::kLogits, .rows = std::vector<uint32_t>(60'000)}};
            }),
            "none");
  EXPECT_EQ(Fault([](Forward& f) {
              const SampleSpec all = {.kind = Kind::kLogprobs,
                                      .rows = std::vector<uint32_t>(1'000),
                                      .ids = std::vector<uint32_t>(50'000)};
              f.samples = {all};
            }),
            "a pass that reads 50000000 numbers: at most 33554432 are possible");
}

TEST(PlaceSlots, PutsChunksTogetherInTheOrderOfTheSamples) {
  ScheduledPass pass;
  pass.forward.tokens.resize(6);
  pass.forward.samples = {
      {.rows = {5, 0}}, {.kind = Kind::kMultinomial, .draws = 2, .rows = {2, 3}}, {.rows = {1}}};
  ASSERT_EQ(SlotCount(pass.forward.samples), 7U);
  const auto token = [](uint32_t value) { return Slot(TokenSlot{value}); };
  PlaceSlots(pass, 0, 3, {token(100), token(220), token(221), token(110)});
  PlaceSlots(pass, 3, 3, {token(105), token(230), token(231)});
  std::vector<uint32_t> tokens;
  for (const Slot& slot : pass.slots) tokens.push_back(std::get<TokenSlot>(slot).token);
  EXPECT_EQ(tokens, (std::vector<uint32_t>{105, 100, 220, 221, 230, 231, 110}));
}

}  // namespace
}  // namespace pie
