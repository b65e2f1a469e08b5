// Everything that can happen to a sequence, each thing after each other: what the device then says
// is, to the last bit, what it says to a fresh sequence that is fed the same rows at once.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/tiny_llama.h"
#include "backend/dummy/dummy_backend.h"
#include "sched/scheduler.h"
#include "sched/swap.h"
#include "sched/testing.h"

namespace pie {
namespace {

using testing::Outcome;
using Tokens = std::vector<uint32_t>;

constexpr uint32_t kPageTokens = 4;
constexpr uint32_t kPages = 24;

std::unique_ptr<Backend> Dummy(uint32_t pages) {
  return MakeDummyBackend({.seed = 5, .page_tokens = kPageTokens, .total_pages = pages});
}

std::unique_ptr<Backend> TinyLlama(uint32_t pages) {
  static const std::string bytes = cpu::TinyLlama(DType::kQ4_1, DType::kQ8_0, true).Bytes();
  const std::string path = ::testing::TempDir() + "composition.gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  auto backend =
      MakeCpuBackend(path, {.page_tokens = kPageTokens, .total_pages = pages, .threads = 1});
  std::filesystem::remove(path);
  return std::move(backend.value());
}

// A sequence, and all that it was fed.
struct Fed {
  SequenceId id;
  Rows rows;
};

class Kitchen {
 public:
  Kitchen(std::unique_ptr<Backend> backend, bool share)
      : scheduler_(std::move(backend), {.prefix = {.share = share}, .check_integrity = true}),
        swap_(1000) {}

  Fed Create() { return {scheduler_.Create(), {}}; }

  Forward Pass(Fed& fed, const Tokens& tokens, std::vector<Brle> masks = {}) {
    Forward forward;
    forward.sequence = fed.id;
    forward.tokens = tokens;
    for (uint32_t i = 0; i < tokens.size(); ++i) {
      forward.positions.push_back(fed.rows.size() + i);
    }
    forward.attention = std::move(masks);
    forward.samples = {{.rows = {static_cast<uint32_t>(tokens.size()) - 1}}};
    fed.rows.Append(forward.rows(0, tokens.size()), fed.rows.size());
    return forward;
  }
  std::vector<Slot> Run(Forward forward) {
    Outcome outcome;
    forward.done = outcome.Callback();
    scheduler_.Execute(std::move(forward));
    const auto result = outcome.Get();
    if (!result || !*result) {
      ADD_FAILURE() << (result ? result->error().text : "vanished");
      return {Slot{TokenSlot{0}}};
    }
    return std::move(**result);
  }
  uint32_t Feed(Fed& fed, const Tokens& tokens, std::vector<Brle> masks = {}) {
    return std::get<TokenSlot>(Run(Pass(fed, tokens, std::move(masks))).at(0)).token;
  }
  std::vector<float> Logits(Fed& fed, uint32_t token) {
    Forward forward = Pass(fed, {token});
    forward.samples[0].kind = SampleSpec::Kind::kLogits;
    return std::get<LogitsSlot>(Run(std::move(forward)).at(0)).logits;
  }
  // Of a sequence that is fed all rows at once.
  std::vector<float> LogitsOf(const Rows& rows) {
    Forward forward;
    forward.sequence = scheduler_.Create();
    forward.tokens = rows.tokens;
    forward.positions = rows.positions;
    forward.attention = rows.masks;
    forward.samples = {{.kind = SampleSpec::Kind::kLogits, .rows = {rows.size() - 1}}};
    return std::get<LogitsSlot>(Run(std::move(forward)).at(0)).logits;
  }

  Scheduler& scheduler() { return scheduler_; }
  SwapPool& swap() { return swap_; }

 private:
  Scheduler scheduler_;
  SwapPool swap_;
};

struct Ingredient {
  const char* name;
  std::function<void(Kitchen&, Fed&)> add;
};

const std::vector<Ingredient>& Ingredients() {
  static const std::vector<Ingredient> all = {
      {"fork",
       [](Kitchen& kitchen, Fed& fed) {
         Fed parent = fed;
         fed.id = kitchen.scheduler().Fork(parent.id);
         kitchen.Feed(parent, {70, 71, 72});
         kitchen.Feed(fed, {73, 74});
       }},
      {"truncate",
       [](Kitchen& kitchen, Fed& fed) {
         fed.rows.Truncate(fed.rows.size() - 5);
         kitchen.scheduler().Truncate(fed.id, fed.rows.size());
       }},
      {"mask",
       [](Kitchen& kitchen, Fed& fed) {
         const uint32_t before = fed.rows.size();
         std::vector<Brle> masks;
         for (uint32_t i = 0; i < 6; ++i) masks.push_back({i % 3, 4 + i, 3, before});
         kitchen.Feed(fed, {10, 11, 12, 13, 14, 15}, masks);
       }},
      {"snapshot",
       [](Kitchen& kitchen, Fed& fed) {
         std::shared_ptr<const StoredKv> stored;
         std::atomic<bool> done = false;
         kitchen.scheduler().Read(fed.id, 0, kPages, [&](Result<KvContent> content) {
           stored = kitchen.swap().Keep(std::move(content->rows), std::move(content->bytes),
                                        kitchen.scheduler().info().page_bytes);
           done = true;
         });
         while (!done) std::this_thread::yield();
         fed.id = kitchen.scheduler().Open({}, stored);
       }},
      {"preemption",
       [](Kitchen& kitchen, Fed& fed) {
         kitchen.scheduler().Suspend(fed.id);
         Fed greedy = kitchen.Create();
         kitchen.Feed(greedy, Tokens(kPages * kPageTokens - 1, 42));  // all pages there are
         kitchen.scheduler().Drop(greedy.id);
       }},
      {"prefix hit",
       [](Kitchen& kitchen, Fed& fed) {
         const Rows rows = fed.rows;
         fed = kitchen.Create();
         kitchen.Feed(fed, rows.tokens, rows.masks);
       }},
      {"chain",
       [](Kitchen& kitchen, Fed& fed) {
         Forward forward = kitchen.Pass(fed, {20});
         forward.chain = std::make_unique<Chain>();
         forward.chain->max_tokens = 7;
         Tokens given;
         forward.chain->give = [&](uint32_t token, std::optional<Chain::End>) {
           given.push_back(token);
         };
         kitchen.Run(std::move(forward));
         given.pop_back();  // the last one is not fed
         Tokens positions(given.size());
         for (uint32_t& p : positions)
           p = fed.rows.size() + static_cast<uint32_t>(&p - &positions[0]);
         fed.rows.Append({.tokens = given, .positions = positions, .masks = {}}, fed.rows.size());
       }},
      {"steps",
       [](Kitchen& kitchen, Fed& fed) {
         uint32_t token = 20;
         for (int i = 0; i < 7; ++i) token = kitchen.Feed(fed, {token});
       }},
  };
  return all;
}

struct Case {
  const char* name;
  std::unique_ptr<Backend> (*make)(uint32_t pages);
  bool share;
};

class CompositionTest : public ::testing::TestWithParam<Case> {};

TEST_P(CompositionTest, AllPairsGiveWhatAPlainRecomputationGives) {
  Kitchen plain(GetParam().make(256), false);
  for (const Ingredient& first : Ingredients()) {
    for (const Ingredient& second : Ingredients()) {
      Kitchen kitchen(GetParam().make(kPages), GetParam().share);
      Fed fed = kitchen.Create();
      Tokens prompt(21);
      for (uint32_t i = 0; i < prompt.size(); ++i) prompt[i] = 30 + i * 7 % 60;
      kitchen.Feed(fed, prompt);
      first.add(kitchen, fed);
      second.add(kitchen, fed);
      const std::vector<float> logits = kitchen.Logits(fed, 33);
      EXPECT_TRUE(logits == plain.LogitsOf(fed.rows)) << first.name << ", then " << second.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CompositionTest,
                         ::testing::Values(Case{"Dummy", Dummy, true},
                                           Case{"DummyAlone", Dummy, false},
                                           Case{"TinyLlama", TinyLlama, true},
                                           Case{"TinyLlamaAlone", TinyLlama, false}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace pie
