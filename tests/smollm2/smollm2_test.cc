// The CPU device on a real model, SmolLM2, against the same weights in float32.
//
// The device differs from float32 in two ways: activations are quantised to 8 bits in blocks of 32,
// and keys and values are F16. The limits here are those of docs/reference/correctness.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "golden.h"
#include "player.h"

namespace pie {
namespace {

using Tokens = Player::Tokens;
using Logits = Player::Logits;

// The margin of a token is the distance of its logit from the best other one. It may differ from
// the reference's margin by this much. Where the reference's margin is smaller, either token may
// win.
constexpr float kMarginError = 0.5F;
constexpr double kMeanDivergence = 1e-3;
constexpr double kMeanDivergenceOfBytes = 2e-3;
constexpr double kMaxDivergence = 5e-3;

class SmolLm2 : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    golden_ = std::make_unique<Golden>(Golden::Read(PIE_GOLDEN_DIR));
    if (const auto path = FindSmolLm2()) model_ = path->string();
  }
  static void TearDownTestSuite() { golden_.reset(); }
  void SetUp() override {
    if (model_.empty()) GTEST_SKIP() << "the default model is not here; run: make setup";
  }

  static std::unique_ptr<Backend> Open(uint32_t page_tokens = 16, uint32_t threads = 1,
                                       cpu::KvType kv_type = cpu::KvType::kF16) {
    CpuOptions options{.page_tokens = page_tokens,
                       .total_pages = 16'384 / page_tokens,
                       .threads = threads,
                       .kv_type = kv_type};
    auto device = MakeCpuBackend(model_, options);
    EXPECT_TRUE(device) << device.error().text;
    return device ? std::move(*device) : nullptr;
  }

  static inline std::unique_ptr<Golden> golden_;
  static inline std::string model_;
};

uint32_t Best(const Logits& logits) {
  return static_cast<uint32_t>(std::ranges::max_element(logits) - logits.begin());
}

// The margin of a token; negative if another token is better.
float Margin(const Logits& logits, uint32_t token) {
  float other = -INFINITY;
  for (uint32_t i = 0; i < logits.size(); ++i) {
    if (i != token) other = std::max(other, logits[i]);
  }
  return logits[token] - other;
}

// All prompts are continued in one batch, each with its own choices. A choice that may differ from
// the reference's and does is replaced by the reference's, so that every step is compared.
TEST_F(SmolLm2, GreedyContinuationsAreThoseOfTheReference) {
  const auto device = Open();
  Player player(*device);
  const size_t count = golden_->prompts.size();
  std::vector<Player::Sequence> sequences(count);
  std::vector<Logits> logits(count);
  for (size_t i = 0; i < count; ++i) {
    logits[i] = player.Feed(sequences[i], golden_->prompts[i].ids, 512);
  }
  float worst = 0;
  uint32_t steps = 0;
  uint32_t near = 0;
  uint32_t differ = 0;
  for (size_t step = 0; step < golden_->prompts[0].greedy.size(); ++step) {
    std::vector<Player::Input> inputs;
    for (size_t i = 0; i < count; ++i) {
      const Golden::Prompt& prompt = golden_->prompts[i];
      const uint32_t expected = prompt.greedy[step];
      const float error = Margin(logits[i], expected) - prompt.margins[step];
      worst = std::max(worst, std::abs(error));
      EXPECT_LE(std::abs(error), kMarginError) << "prompt " << i << " step " << step;
      if (prompt.margins[step] > kMarginError) {
        EXPECT_EQ(Best(logits[i]), expected) << "prompt " << i << " step " << step;
      }
      near += prompt.margins[step] <= kMarginError ? 1 : 0;
      differ += Best(logits[i]) != expected ? 1 : 0;
      ++steps;
      inputs.push_back({&sequences[i], {&prompt.greedy[step], 1}});
    }
    logits = player.Step(inputs);
  }
  // Near ties must not be decided at random, which would get half of them wrong.
  EXPECT_LE(differ, steps / 50);
  fmt::print(
      "{} of {} tokens differ, all where the best two are near ({} places); margins err by "
      "{:.3f} at most\n",
      differ, steps, near, worst);
}

// The mean and the worst KL(reference, device) of all places.
std::pair<double, double> Divergences(const Golden& golden, Backend& device) {
  Player player(device);
  double sum = 0;
  double worst = 0;
  for (const Golden::Place& place : golden.places) {
    const Golden::Prompt& prompt = golden.prompts[place.prompt];
    Tokens tokens = prompt.ids;
    tokens.insert(tokens.end(), prompt.greedy.begin(), prompt.greedy.begin() + place.step);
    Player::Sequence sequence;
    const double kl = Divergence(place.logprobs, player.Feed(sequence, tokens, 512));
    worst = std::max(worst, kl);
    sum += kl;
  }
  return {sum / static_cast<double>(golden.places.size()), worst};
}

TEST_F(SmolLm2, DistributionsAreThoseOfTheReference) {
  const auto [mean, worst] = Divergences(*golden_, *Open());
  EXPECT_LT(mean, kMeanDivergence);
  EXPECT_LT(worst, kMaxDivergence);
  fmt::print("KL(reference, ours) over {} places: mean {:.2e}, max {:.2e}\n",
             golden_->places.size(), mean, worst);
}

TEST_F(SmolLm2, KeysAndValuesInBytesCostLittle) {
  const auto [mean, worst] = Divergences(*golden_, *Open(16, 1, cpu::KvType::kQ8));
  EXPECT_LT(mean, kMeanDivergenceOfBytes);
  EXPECT_LT(worst, kMaxDivergence);
  fmt::print("KL(reference, ours with keys and values in bytes): mean {:.2e}, max {:.2e}\n", mean,
             worst);
}

// The tokens of a prompt's greedy continuation, and the last logits, which depend on all of them.
struct Continuation {
  Tokens tokens;
  Logits last;
  bool operator==(const Continuation&) const = default;
};

constexpr uint32_t kSteps = 24;

Continuation GoOn(Player& player, Player::Sequence& sequence, Logits logits) {
  Continuation result;
  for (uint32_t step = 0; step < kSteps; ++step) {
    result.tokens.push_back(Best(logits));
    logits = player.Feed(sequence, {&result.tokens.back(), 1}, 1);
  }
  result.last = std::move(logits);
  return result;
}

class SmolLm2Invariance : public SmolLm2 {
 protected:
  // Prompts of different lengths.
  static std::vector<Tokens> Prompts() {
    return {golden_->prompts[19].ids, golden_->prompts[10].ids, golden_->prompts[6].ids};
  }

  // Each prompt alone, in one piece, with the usual page size.
  static std::vector<Continuation> Alone(Backend& device, uint32_t chunk = 512) {
    Player player(device);
    std::vector<Continuation> result;
    for (const Tokens& prompt : Prompts()) {
      Player::Sequence sequence;
      Logits logits = player.Feed(sequence, prompt, chunk);
      result.push_back(GoOn(player, sequence, std::move(logits)));
    }
    return result;
  }
};

TEST_F(SmolLm2Invariance, PagesAndChunksChangeNothing) {
  const auto usual = Alone(*Open());
  for (const uint32_t page_tokens : {1, 16, 64}) {
    const auto device = Open(page_tokens);
    for (const uint32_t chunk : {1, 7, 32}) {
      EXPECT_EQ(Alone(*device, chunk), usual) << "pages of " << page_tokens << ", chunks " << chunk;
    }
  }
}

TEST_F(SmolLm2Invariance, ThreadsChangeNothing) {
  EXPECT_EQ(Alone(*Open(16, 1)), Alone(*Open(16, 3)));
}

TEST_F(SmolLm2Invariance, NeitherDoTheyWithKeysAndValuesInBytes) {
  const auto usual = Alone(*Open(16, 1, cpu::KvType::kQ8));
  EXPECT_EQ(Alone(*Open(1, 3, cpu::KvType::kQ8), 7), usual);
  EXPECT_EQ(Alone(*Open(64, 2, cpu::KvType::kQ8), 1), usual);
}

TEST_F(SmolLm2Invariance, TheRestOfTheBatchChangesNothing) {
  for (const uint32_t page_tokens : {1, 16, 64}) {
    const auto device = Open(page_tokens);
    const auto alone = Alone(*device);
    Player player(*device);
    const std::vector<Tokens> prompts = Prompts();
    std::vector<Player::Sequence> sequences(prompts.size());
    std::vector<Continuation> together(prompts.size());
    std::vector<Player::Input> inputs;
    for (size_t i = 0; i < prompts.size(); ++i) inputs.push_back({&sequences[i], prompts[i]});
    // All in one batch, together with an unrelated long prefill.
    Player::Sequence stranger;
    const Tokens noise(32, 5);
    for (uint32_t step = 0; step < kSteps; ++step) {
      inputs.push_back({&stranger, noise});
      const auto logits = player.Step(inputs);
      inputs.clear();
      for (size_t i = 0; i < prompts.size(); ++i) {
        together[i].tokens.reserve(kSteps);  // the inputs point into it
        together[i].tokens.push_back(Best(logits[i]));
        inputs.push_back({&sequences[i], {&together[i].tokens.back(), 1}});
      }
    }
    const auto last = player.Step(inputs);
    for (size_t i = 0; i < prompts.size(); ++i) together[i].last = last[i];
    EXPECT_EQ(together, alone) << "pages of " << page_tokens;
  }
}

// Forks share pages. They give the same results one by one, side by side, and without sharing.
TEST_F(SmolLm2Invariance, ForksChangeNothing) {
  for (const uint32_t page_tokens : {1, 16, 64}) {
    const auto device = Open(page_tokens);
    const auto usual = Alone(*device)[0];
    Player player(*device);
    const Tokens prompt = Prompts()[0];
    const auto cut = prompt.begin() + static_cast<std::ptrdiff_t>(prompt.size() * 2 / 3);
    Player::Sequence trunk;
    player.Feed(trunk, {prompt.begin(), cut}, 512);
    std::vector<Player::Sequence> forks;
    for (int i = 0; i < 4; ++i) forks.push_back(player.Fork(trunk));
    player.Feed(trunk, Tokens(20, 7), 512);  // the trunk goes on and writes to its partial page
    const std::span<const uint32_t> rest(cut, prompt.end());
    std::vector<Logits> logits =
        player.Step({{&forks[0], rest}, {&forks[1], rest}, {&forks[2], rest}, {&forks[3], rest}});
    std::vector<Continuation> results(forks.size());
    for (uint32_t step = 0; step < kSteps; ++step) {
      std::vector<Player::Input> inputs;
      for (size_t i = 0; i < forks.size(); ++i) {
        results[i].tokens.reserve(kSteps);
        results[i].tokens.push_back(Best(logits[i]));
        inputs.push_back({&forks[i], {&results[i].tokens.back(), 1}});
      }
      logits = player.Step(inputs);
    }
    for (size_t i = 0; i < forks.size(); ++i) {
      results[i].last = logits[i];
      EXPECT_EQ(results[i], usual) << "fork " << i << ", pages of " << page_tokens;
    }
  }
}

}  // namespace
}  // namespace pie
