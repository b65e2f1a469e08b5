#include "backend/asynchronous.h"

#include <gtest/gtest.h>

#include <chrono>

#include "backend/dummy/dummy_backend.h"
#include "backend/sampling.h"

namespace pie {
namespace {

constexpr uint32_t kPageTokens = 4;
const std::vector<SampleSpec> kGreedy = {{.rows = {0}}};

DummyOptions Options() {
  return {.seed = 7, .page_tokens = kPageTokens, .total_pages = 16};
}

// A batch of one token of one sequence, which is in page 0.
Batch OneToken(uint32_t token, uint32_t position) {
  Batch batch;
  batch.tokens = {token};
  batch.positions = {position};
  batch.pages = {PageId{0}};
  batch.members = {{.rows = 1, .pages = 1, .kv_tokens = position, .samples = &kGreedy}};
  return batch;
}

uint32_t TokenOf(const Result<BatchOutput>& output) {
  EXPECT_TRUE(output) << output.error().text;
  return std::get<TokenSlot>(output.value().slots.at(0).at(0)).token;
}

uint32_t Greedy(const std::vector<DummySlot>& slots) {
  return *Argmax(DummyLogits(Options(), slots), nullptr);
}

TEST(Asynchronous, SubmitDoesNotWaitForTheDevice) {
  const auto device =
      MakeAsynchronous(MakeDummyBackend(Options()), {.batches_in_flight = 3, .latency_us = 20'000});
  EXPECT_EQ(device->info().batches_in_flight, 3U);
  const Batch batch = OneToken('a', 0);
  const auto start = std::chrono::steady_clock::now();
  const auto first = device->Submit(batch);
  const auto second = device->Submit(batch);
  const auto third = device->Submit(batch);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  for (const auto& ticket : {first, second, third}) {
    EXPECT_EQ(TokenOf(device->Wait(ticket.value())), Greedy({{'a', 0}}));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(60));
}

TEST(Asynchronous, ABatchTakesTokensFromTheOneBefore) {
  const auto device = MakeAsynchronous(MakeDummyBackend(Options()));
  const Batch first = OneToken('a', 0);
  Batch second = OneToken(99, 1);
  const auto ticket = device->Submit(first).value();
  second.carried = {{.row = 0, .batch = ticket, .member = 0}};
  const auto later = device->Submit(second).value();
  const uint32_t token = TokenOf(device->Wait(ticket));
  EXPECT_EQ(token, Greedy({{'a', 0}}));
  EXPECT_EQ(TokenOf(device->Wait(later)), Greedy({{'a', 0}, {token, 1}}));
}

TEST(Asynchronous, AMemberWhoseTokenNeverCameFails) {
  DummyOptions options = Options();
  options.fail_every = 3;
  const auto device = MakeAsynchronous(MakeDummyBackend(options), {.batches_in_flight = 2});
  const Batch batch = OneToken('a', 0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(device->Wait(device->Submit(batch).value()));
  }
  const auto fails = device->Submit(batch).value();
  Batch second = OneToken(99, 1);
  second.carried = {{.row = 0, .batch = fails, .member = 0}};
  const auto later = device->Submit(second).value();
  EXPECT_FALSE(device->Wait(fails));
  const auto output = device->Wait(later);
  ASSERT_TRUE(output);
  ASSERT_EQ(output->failures.size(), 1U);
  EXPECT_EQ(output->failures[0].member, 0U);
}

TEST(Asynchronous, PagesAreReadBehindTheBatchesInFlight) {
  const auto device = MakeAsynchronous(MakeDummyBackend(Options()), {.latency_us = 5'000});
  const Batch batch = OneToken('a', 0);
  std::vector<std::byte> before(device->info().page_bytes);
  std::vector<std::byte> after(before.size());
  ASSERT_TRUE(device->ReadPage(PageId{0}, before));
  const auto ticket = device->Submit(batch).value();
  ASSERT_TRUE(device->ReadPage(PageId{0}, after));
  EXPECT_NE(before, after);
  ASSERT_TRUE(device->WritePage(PageId{0}, before));
  EXPECT_EQ(TokenOf(device->Wait(ticket)), Greedy({{'a', 0}}));
}

}  // namespace
}  // namespace pie
