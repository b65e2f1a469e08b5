#include "backend/dummy/dummy_backend.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "backend/recording.h"
#include "backend/sampling.h"
#include "base/brle.h"
#include "model/dummy_vocab.h"

namespace pie {
namespace {

using Kind = SampleSpec::Kind;

// A batch by hand: one member after the other, each with its own pages.
class Builder {
 public:
  Batch::Member& Add(const std::vector<uint32_t>& tokens, const std::vector<uint32_t>& pages,
                     uint32_t kv_tokens = 0) {
    Batch::Member member;
    member.first_row = static_cast<uint32_t>(batch.tokens.size());
    member.rows = static_cast<uint32_t>(tokens.size());
    member.first_page = static_cast<uint32_t>(batch.pages.size());
    member.pages = static_cast<uint32_t>(pages.size());
    member.kv_tokens = kv_tokens;
    for (uint32_t i = 0; i < tokens.size(); ++i) {
      batch.tokens.push_back(tokens[i]);
      batch.positions.push_back(kv_tokens + i);
    }
    for (uint32_t page : pages) batch.pages.push_back(PageId{page});
    return batch.members.emplace_back(member);
  }
  Batch batch;
};

Result<BatchOutput> RunBatch(Backend& backend, const Batch& batch) {
  return backend.Wait(PIE_TRY(backend.Submit(batch)));
}

std::vector<float> Logits(const BatchOutput& output, size_t member, size_t slot = 0) {
  return std::get<LogitsSlot>(output.slots.at(member).at(slot)).logits;
}

std::vector<DummySlot> Slots(const std::vector<uint32_t>& tokens) {
  std::vector<DummySlot> slots;
  for (uint32_t i = 0; i < tokens.size(); ++i) slots.push_back({tokens[i], i});
  return slots;
}

const DummyOptions kSmall = {.seed = 9, .page_tokens = 4, .total_pages = 16};

TEST(DummyBackend, PagesCanBeCarriedElsewhere) {
  const auto from = MakeDummyBackend(kSmall);
  const auto to = MakeDummyBackend(kSmall);
  Builder first;
  first.Add({5, 6, 7, 8, 9}, {0, 1});
  ASSERT_TRUE(RunBatch(*from, first.batch));
  std::vector<std::byte> content(from->info().page_bytes);
  for (uint32_t page : {0U, 1U}) {
    ASSERT_TRUE(from->ReadPage({page}, content));
    ASSERT_TRUE(to->WritePage({page + 7}, content));
  }
  const std::vector<SampleSpec> samples = {{.kind = Kind::kLogits, .rows = {0}}};
  Builder second;
  second.Add({10}, {7, 8}, 5).samples = &samples;
  const auto output = RunBatch(*to, second.batch);
  ASSERT_TRUE(output);
  EXPECT_EQ(Logits(*output, 0), DummyLogits(kSmall, Slots({5, 6, 7, 8, 9, 10})));
  EXPECT_NE(from->info().fingerprint, MakeDummyBackend({.seed = 8})->info().fingerprint);
  EXPECT_NE(from->info().layout, MakeDummyBackend({.page_tokens = 5})->info().layout);
}

TEST(DummyBackend, EmbeddingsFollowFromWhatARowAttendsTo) {
  const auto backend = MakeDummyBackend(kSmall);
  const std::vector<SampleSpec> samples = {{.kind = Kind::kEmbedding, .rows = {4, 0}},
                                           {.kind = Kind::kLogits, .rows = {4}}};
  Builder builder;
  builder.Add({5, 6, 7, 8, 9}, {0, 1}).samples = &samples;
  const auto output = RunBatch(*backend, builder.batch);
  ASSERT_TRUE(output);
  const auto state = [&](size_t slot) {
    return std::get<EmbeddingSlot>(output->slots.at(0).at(slot)).state;
  };
  EXPECT_EQ(state(0).size(), backend->info().hidden_size);
  EXPECT_EQ(state(0), DummyEmbedding(kSmall, Slots({5, 6, 7, 8, 9})));
  EXPECT_EQ(state(1), DummyEmbedding(kSmall, Slots({5})));
  EXPECT_NE(state(0), state(1));
  for (const float number : state(0)) EXPECT_LE(std::abs(number), 1);
  EXPECT_EQ(Logits(*output, 0, 2), DummyLogits(kSmall, Slots({5, 6, 7, 8, 9})));
}

TEST(DummyBackend, WritesTheWordsOfAnotherVocabularyAndEndsNowAndThen) {
  DummyOptions options = kSmall;
  options.tokens.assign(50'000, DummyToken::kOther);
  for (uint32_t id = 1'000; id < 40'000; ++id) options.tokens[id] = DummyToken::kWord;
  options.tokens[7] = DummyToken::kEnd;
  options.tokens[8] = DummyToken::kSpecial;
  EXPECT_EQ(MakeDummyBackend(options)->info().vocab_size, 50'000U);
  uint32_t ends = 0;
  for (uint32_t i = 0; i < 2'000; ++i) {
    const auto best = Argmax(DummyLogits(options, Slots({i, 5})), nullptr).value();
    if (best == 7) {
      ++ends;
    } else {
      EXPECT_EQ(options.tokens[best], DummyToken::kWord) << best;
    }
  }
  EXPECT_GT(ends, 2'000U / 160);
  EXPECT_LT(ends, 2'000U / 40);
}

// Says "!" after "hi", wherever the pages are.
std::vector<ScriptedToken> SayBang(std::span<const uint32_t> context) {
  const bool hi = context.size() == 2 && context[0] == 'h' && context[1] == 'i';
  return hi ? std::vector<ScriptedToken>{{'!', 0.75F}, {'?', 0.25F}} : std::vector<ScriptedToken>{};
}

DummyOptions Scripted() {
  DummyOptions options = kSmall;
  options.script = SayBang;
  return options;
}

TEST(DummyBackend, AScriptTakesTheProbability) {
  const auto backend = MakeDummyBackend(Scripted());
  const std::vector<SampleSpec> samples = {
      {.kind = Kind::kTopK, .temperature = 0, .rows = {1, 2}},
      {.kind = Kind::kLogprobs, .rows = {1}, .ids = {'!', '?', 'a'}},
      {.kind = Kind::kLogits, .rows = {2}}};
  Builder builder;
  builder.Add({'h', 'i', 'j'}, {3}).samples = &samples;
  const auto output = RunBatch(*backend, builder.batch).value();
  EXPECT_EQ(std::get<TokenSlot>(output.slots[0][0]).token, uint32_t{'!'});
  const auto& logprobs = std::get<LogprobsSlot>(output.slots[0][2]).logprobs;
  EXPECT_FLOAT_EQ(logprobs[0], std::log(0.75F));
  EXPECT_FLOAT_EQ(logprobs[1], std::log(0.25F));
  EXPECT_LT(logprobs[2], -900);
  // A row that the script says nothing about is the dummy model's own.
  EXPECT_EQ(Logits(output, 0, 3), DummyLogits(kSmall, Slots({'h', 'i', 'j'})));
}

TEST(DummyBackend, AMaskThatForbidsTheScriptLeavesTheRest) {
  const auto backend = MakeDummyBackend(Scripted());
  const std::vector<SampleSpec> samples = {{.kind = Kind::kTopK, .temperature = 0, .rows = {1}}};
  const Brle only_z = {'z', 1};
  Builder builder;
  auto& member = builder.Add({'h', 'i'}, {3});
  member.samples = &samples;
  member.logit_mask = &only_z;
  const auto output = RunBatch(*backend, builder.batch).value();
  EXPECT_EQ(std::get<TokenSlot>(output.slots[0][0]).token, uint32_t{'z'});
}

TEST(DummyBackend, AScriptFollowsPagesAndMasks) {
  const auto backend = MakeDummyBackend(Scripted());
  Builder first;
  first.Add({'h'}, {0});
  ASSERT_TRUE(RunBatch(*backend, first.batch));
  std::vector<std::byte> content(backend->info().page_bytes);
  ASSERT_TRUE(backend->ReadPage({0}, content));
  ASSERT_TRUE(backend->WritePage({5}, content));
  const std::vector<SampleSpec> samples = {{.kind = Kind::kTopK, .temperature = 0, .rows = {0}},
                                           {.kind = Kind::kTopK, .temperature = 0, .rows = {1}}};
  const std::vector<Brle> attention = {{0, 2}, {0, 1, 1, 1}};  // the last row leaves out the second
  Builder second;
  second.batch.copies.push_back({.from = {5}, .to = {6}});
  auto& member = second.Add({'x', 'i'}, {6}, 1);
  member.samples = &samples;
  member.attention = &attention;
  const auto output = RunBatch(*backend, second.batch).value();
  EXPECT_NE(std::get<TokenSlot>(output.slots[0][0]).token, uint32_t{'!'});
  EXPECT_EQ(std::get<TokenSlot>(output.slots[0][1]).token, uint32_t{'!'});
}

TEST(DummyBackend, ARecordingReportsChosenTokensWithTheirContexts) {
  std::vector<std::pair<std::string, uint32_t>> seen;
  const auto backend = MakeRecording(
      MakeDummyBackend(Scripted()), [&](std::span<const uint32_t> context, uint32_t token) {
        seen.emplace_back(std::string(context.begin(), context.end()), token);
      });
  EXPECT_EQ(backend->info().batches_in_flight, 1U);
  const std::vector<SampleSpec> samples = {{.kind = Kind::kEntropy, .rows = {0}},
                                           {.kind = Kind::kTopK, .temperature = 0, .rows = {1}}};
  Builder first;
  first.Add({'h', 'i'}, {0}).samples = &samples;
  ASSERT_TRUE(RunBatch(*backend, first.batch));
  EXPECT_EQ(seen, (std::vector<std::pair<std::string, uint32_t>>{{"hi", '!'}}));
  std::vector<std::byte> content(backend->info().page_bytes);
  ASSERT_TRUE(backend->ReadPage({0}, content));
  ASSERT_TRUE(backend->WritePage({9}, content));
  const std::vector<SampleSpec> next = {{.kind = Kind::kTopK, .temperature = 0, .rows = {0}}};
  Builder second;
  second.Add({'!'}, {9}, 2).samples = &next;
  ASSERT_TRUE(RunBatch(*backend, second.batch));
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[1].first, "hi!");
}

TEST(DummyBackend, TellsWhatItCanDo) {
  const auto backend = MakeDummyBackend({});
  EXPECT_EQ(backend->info().name, "dummy");
  EXPECT_EQ(backend->info().vocab_size, dummy::kVocabSize);
  EXPECT_EQ(MakeDummyBackend({.vocab_size = 1000})->info().vocab_size, 1000U);
  EXPECT_EQ(MakeDummyBackend({.vocab_size = 5})->info().vocab_size, dummy::kVocabSize);
}

TEST(DummyBackend, LogitsAreThoseOfTheAttendedSlots) {
  const auto backend = MakeDummyBackend(kSmall);
  const std::vector<SampleSpec> samples = {{.kind = Kind::kLogits, .rows = {0, 4}}};
  Builder builder;
  builder.Add({'h', 'e', 'l', 'l', 'o'}, {3, 7}).samples = &samples;
  const auto output = RunBatch(*backend, builder.batch).value();
  EXPECT_EQ(Logits(output, 0, 0), DummyLogits(kSmall, Slots({'h'})));
  EXPECT_EQ(Logits(output, 0, 1), DummyLogits(kSmall, Slots({'h', 'e', 'l', 'l', 'o'})));
}

TEST(DummyBackend, ChunksContinueWhatThePagesHold) {
  const auto backend = MakeDummyBackend(kSmall);
  Builder first;
  first.Add({'h', 'e', 'l'}, {3});
  ASSERT_TRUE(RunBatch(*backend, first.batch));
  const std::vector<SampleSpec> samples = {{.kind = Kind::kLogits, .rows = {1, 4}}};
  Builder second;
  auto& member = second.Add({'l', 'o'}, {3, 7}, 3);
  member.samples = &samples;
  member.pass_row = 3;
  const auto output = RunBatch(*backend, second.batch).value();
  ASSERT_EQ(output.slots[0].size(), 1U);  // row 1 was in the first chunk
  EXPECT_EQ(Logits(output, 0), DummyLogits(kSmall, Slots({'h', 'e', 'l', 'l', 'o'})));
}

TEST(DummyBackend, TheBatchAroundAMemberChangesNothing) {
  const auto backend = MakeDummyBackend(kSmall);
  const std::vector<SampleSpec> samples = {{.kind = Kind::kLogits, .rows = {1}}};
  Builder builder;
  builder.Add({'x'}, {0}).samples = nullptr;
  builder.Add({'h', 'i'}, {1}).samples = &samples;
  builder.Add({'y', 'z', 'w', 'v', 'u'}, {2, 3}).samples = nullptr;
  EXPECT_EQ(Logits(RunBatch(*backend, builder.batch).value(), 1),
            DummyLogits(kSmall, Slots({'h', 'i'})));
}

TEST(DummyBackend, AttentionMasksChooseSlotsUpToTheCausalLimit) {
  const auto backend = MakeDummyBackend(kSmall);
  const std::vector<SampleSpec> samples = {{.kind = Kind::kLogits, .rows = {0, 1, 2, 3, 4}}};
  const std::vector<Brle> attention = {
      {0, 100},                  // too long: clipped to itself
      {1, 1},                    // only itself
      {0, 1},                    // only the first
      {0, 1, 2, UINT32_MAX, 1},  // the first and itself; the sum passes 2^32
      {},                        // nothing
  };
  Builder builder;
  auto& member = builder.Add({'a', 'b', 'c', 'd', 'e'}, {0, 1});
  member.samples = &samples;
  member.attention = &attention;
  const auto output = RunBatch(*backend, builder.batch).value();
  EXPECT_EQ(Logits(output, 0, 0), DummyLogits(kSmall, {{'a', 0}}));
  EXPECT_EQ(Logits(output, 0, 1), DummyLogits(kSmall, {{'b', 1}}));
  EXPECT_EQ(Logits(output, 0, 2), DummyLogits(kSmall, {{'a', 0}}));
  EXPECT_EQ(Logits(output, 0, 3), DummyLogits(kSmall, {{'a', 0}, {'d', 3}}));
  EXPECT_EQ(Logits(output, 0, 4), DummyLogits(kSmall, {}));
}

TEST(DummyBackend, CopiesPagesInOrderBeforeAnythingRuns) {
  const auto backend = MakeDummyBackend(kSmall);
  Builder first;
  first.Add({'a', 'b'}, {0});
  ASSERT_TRUE(RunBatch(*backend, first.batch));
  const std::vector<SampleSpec> samples = {{.kind = Kind::kLogits, .rows = {0}}};
  Builder second;
  second.batch.copies = {{PageId{0}, PageId{5}}, {PageId{5}, PageId{6}}};
  second.Add({'x'}, {0}, 2).samples = &samples;
  second.Add({'y'}, {5}, 2).samples = &samples;
  second.Add({'z'}, {6}, 2).samples = &samples;
  const auto output = RunBatch(*backend, second.batch).value();
  EXPECT_EQ(Logits(output, 0), DummyLogits(kSmall, Slots({'a', 'b', 'x'})));
  EXPECT_EQ(Logits(output, 1), DummyLogits(kSmall, Slots({'a', 'b', 'y'})));
  EXPECT_EQ(Logits(output, 2), DummyLogits(kSmall, Slots({'a', 'b', 'z'})));
}

TEST(DummyBackend, SeedAndPositionsMatter) {
  EXPECT_NE(DummyLogits({.seed = 1}, {{'a', 0}}), DummyLogits({.seed = 2}, {{'a', 0}}));
  EXPECT_NE(DummyLogits({}, {{'a', 0}}), DummyLogits({}, {{'a', 1}}));
  EXPECT_NE(DummyLogits({}, Slots({'a', 'b'})), DummyLogits({}, Slots({'b', 'a'})));
}

TEST(DummyBackend, OneMemberFailsAlone) {
  const auto backend = MakeDummyBackend(kSmall);
  const std::vector<SampleSpec> samples = {{.rows = {0}}};
  const Brle nothing = {10};
  Builder builder;
  builder.Add({'a'}, {0}).samples = &samples;
  auto& member = builder.Add({'b'}, {1});
  member.samples = &samples;
  member.logit_mask = &nothing;
  const auto output = RunBatch(*backend, builder.batch).value();
  EXPECT_EQ(output.slots[0].size(), 1U);
  ASSERT_EQ(output.failures.size(), 1U);
  EXPECT_EQ(output.failures[0].member, 1U);
}

TEST(DummyBackend, EveryNthBatchFailsWhenTold) {
  DummyOptions options = kSmall;
  options.fail_every = 3;
  const auto backend = MakeDummyBackend(options);
  Builder builder;
  builder.Add({'a'}, {0});
  for (int i = 1; i <= 9; ++i) {
    EXPECT_EQ(RunBatch(*backend, builder.batch).has_value(), i % 3 != 0) << i;
  }
}

TEST(DummyBackend, TakesItsTimeWhenTold) {
  DummyOptions options = kSmall;
  options.latency_us = 3000;
  const auto backend = MakeDummyBackend(options);
  Builder builder;
  builder.Add({'a'}, {0});
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(RunBatch(*backend, builder.batch));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::microseconds(3000));
}

// Greedy text is lowercase letters and spaces, in answers of many lengths.
TEST(DummyBackend, GreedyTextLooksLikeTextAndEnds) {
  int ended = 0;
  size_t total_length = 0;
  int spaces = 0;
  for (uint32_t prompt = 0; prompt < 100; ++prompt) {
    std::vector<DummySlot> slots = {{prompt % 256, 0}, {prompt, 1}};
    size_t length = 0;
    for (; length < 400; ++length) {
      const uint32_t token = *Argmax(DummyLogits({}, slots), nullptr);
      if (token == dummy::kImEnd) break;
      ASSERT_TRUE((token >= 'a' && token <= 'z') || token == ' ') << token;
      spaces += token == ' ' ? 1 : 0;
      slots.push_back({token, static_cast<uint32_t>(slots.size())});
    }
    ended += length < 400 ? 1 : 0;
    total_length += length;
  }
  EXPECT_GT(ended, 95);
  EXPECT_GT(total_length, 100U * 20);
  EXPECT_LT(total_length, 100U * 120);
  EXPECT_GT(spaces, static_cast<int>(total_length / 20));
  EXPECT_LT(spaces, static_cast<int>(total_length / 4));
}

TEST(DummyBackend, SamplingHasChoices) {
  Sampling sampling;
  std::vector<Slot> slots;
  const auto logits = DummyLogits({}, Slots({'h', 'i'}));
  ASSERT_TRUE(sampling.Read({.kind = Kind::kEntropy}, logits, nullptr, {}, slots));
  const float entropy = std::get<EntropySlot>(slots[0]).entropy;
  EXPECT_GT(entropy, 0.5F);
  EXPECT_LT(entropy, std::log(28.0F));
}

}  // namespace
}  // namespace pie
