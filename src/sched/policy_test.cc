#include "sched/policy.h"

#include <gtest/gtest.h>

#include "sched/cohort.h"

namespace pie {
namespace {

constexpr int64_t kMs = 1'000'000;

struct Scenario {
  const char* name;
  Gathering gathering;
  int64_t greedy, eager, adaptive;  // what each policy waits, in milliseconds
};

TEST(BatchPolicy, Scenarios) {
  const Scenario scenarios[] = {
      {"a lone stream", {.waiting = 1, .most = 8, .last_latency_ns = 9 * kMs}, 0, 0, 0},
      {"peers that came back quickly are waited for",
       {.waiting = 1, .most = 8, .woken = 3, .prompt = 3, .last_latency_ns = 9 * kMs},
       0,
       9,
       9},
      {"a stranger, only by eager",
       {.waiting = 1, .most = 8, .woken = 1, .last_latency_ns = 9 * kMs},
       0,
       9,
       0},
      {"what has been waited counts",
       {.waiting = 5,
        .most = 8,
        .woken = 1,
        .prompt = 1,
        .waited_ns = 7 * kMs,
        .last_latency_ns = 9 * kMs},
       0,
       2,
       2},
      {"patience ends with the last batch's latency",
       {.waiting = 5,
        .most = 8,
        .woken = 1,
        .prompt = 1,
        .waited_ns = 9 * kMs,
        .last_latency_ns = 9 * kMs},
       0,
       0,
       0},
      {"and later, too",
       {.waiting = 5,
        .most = 8,
        .woken = 1,
        .prompt = 1,
        .waited_ns = 90 * kMs,
        .last_latency_ns = 9 * kMs},
       0,
       0,
       0},
      {"a full batch starts",
       {.waiting = 8, .most = 8, .woken = 4, .prompt = 4, .last_latency_ns = 9 * kMs},
       0,
       0,
       0},
      {"after a long prefill, a batch does not wait as long as that took",
       {.waiting = 1, .most = 8, .woken = 1, .prompt = 1, .last_latency_ns = 900 * kMs},
       0,
       20,
       20},
      {"before the first batch there is no peer to wait for",
       {.waiting = 1, .most = 8, .woken = 1, .prompt = 1},
       0,
       0,
       0},
  };
  for (const Scenario& s : scenarios) {
    EXPECT_EQ(HoldNs(BatchPolicy::kGreedy, s.gathering), s.greedy * kMs) << s.name;
    EXPECT_EQ(HoldNs(BatchPolicy::kEager, s.gathering), s.eager * kMs) << s.name;
    EXPECT_EQ(HoldNs(BatchPolicy::kAdaptive, s.gathering), s.adaptive * kMs) << s.name;
  }
}

TEST(BatchPolicy, Names) {
  EXPECT_EQ(ParseBatchPolicy("greedy"), BatchPolicy::kGreedy);
  EXPECT_EQ(ParseBatchPolicy("eager"), BatchPolicy::kEager);
  EXPECT_EQ(ParseBatchPolicy("adaptive"), BatchPolicy::kAdaptive);
  EXPECT_EQ(ParseBatchPolicy("Greedy"), std::nullopt);
  EXPECT_EQ(ParseBatchPolicy(""), std::nullopt);
}

TEST(Cohort, PromptnessIsEarnedAndLost) {
  StepTime time;
  Cohort cohort(time);
  Cohort::Peer peer;
  time = {.now_ns = 100, .last_latency_ns = 10};
  cohort.Woke(peer);
  EXPECT_EQ(cohort.woken(), 1U);
  EXPECT_EQ(cohort.prompt(), 0U) << "a stranger";
  time = {.now_ns = 110, .last_latency_ns = 10};
  cohort.Back(peer);
  EXPECT_EQ(cohort.woken(), 0U);
  cohort.Woke(peer);
  EXPECT_EQ(cohort.prompt(), 1U) << "it came in time";
  time = {.now_ns = 121, .last_latency_ns = 10};
  cohort.Back(peer);
  cohort.Woke(peer);
  EXPECT_EQ(cohort.prompt(), 0U) << "it came late";
}

TEST(Cohort, TheGoneAndTheForgottenAreNotWaitedFor) {
  StepTime time;
  Cohort cohort(time);
  Cohort::Peer a, b, c;
  time = {.now_ns = 0, .last_latency_ns = 10};
  for (Cohort::Peer* peer : {&a, &b, &c}) cohort.Woke(*peer);
  for (Cohort::Peer* peer : {&a, &b, &c}) cohort.Back(*peer);
  for (Cohort::Peer* peer : {&a, &b, &c}) cohort.Woke(*peer);
  EXPECT_EQ(cohort.prompt(), 3U);
  cohort.Gone(a);
  cohort.Gone(a);
  EXPECT_EQ(cohort.prompt(), 2U);
  cohort.BeginRound();
  EXPECT_EQ(cohort.woken(), 0U);
  cohort.Gone(b);
  EXPECT_EQ(cohort.woken(), 0U);
  time = {.now_ns = 11, .last_latency_ns = 10};
  cohort.Back(c);
  cohort.Woke(c);
  EXPECT_EQ(cohort.woken(), 1U);
  EXPECT_EQ(cohort.prompt(), 0U) << "forgotten, and late when it came";
}

}  // namespace
}  // namespace pie
