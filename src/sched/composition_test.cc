// Everything that can happen to a sequence, each event after each other one. Afterwards the device
// gives, to the last bit, what it gives for a fresh sequence that is fed the same rows at once.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>

#include "backend/asynchronous.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/tiny_llama.h"
#include "backend/cuda/cuda_backend.h"
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

std::unique_ptr<Backend> AsynchronousDummy(uint32_t pages) {
  return MakeAsynchronous(Dummy(pages));
}

std::unique_ptr<Backend> OpenTinyLlama(
    const std::function<Result<std::unique_ptr<Backend>>(const std::string& path)>& open) {
  static const std::string bytes = cpu::TinyLlama(DType::kQ4_1, DType::kQ8_0, true).Bytes();
  const std::string path = ::testing::TempDir() + fmt::format("composition-{}.gguf", getpid());
  std::ofstream(path, std::ios::binary) << bytes;
  auto backend = open(path);
  std::filesystem::remove(path);
  return std::move(backend.value());
}

std::unique_ptr<Backend> TinyLlama(uint32_t pages) {
  return OpenTinyLlama([&](const std::string& path) {
    return MakeCpuBackend(path, {.page_tokens = kPageTokens, .total_pages = pages, .threads = 1});
  });
}

#ifdef PIE_CUDA_EMULATED
std::unique_ptr<Backend> Cuda(uint32_t pages) {
  return OpenTinyLlama([&](const std::string& path) {
    return MakeCudaBackend(path, {.page_tokens = kPageTokens,
                                  .total_pages = pages,
                                  .max_batch_tokens = 128,
                                  .max_batch_members = 16,
                                  .graphs = false,
                                  .deterministic = true});
  });
}
#endif

// A sequence, and all rows that it was fed.
struct Fed {
  SequenceId id;
  Rows rows;
};

class Kitchen {
 public:
  Kitchen(std::unique_ptr<Backend> backend, bool share, uint32_t swap_pages)
      : scheduler_(std::move(backend), {.prefix = {.share = share},
                                        .memory = {.swap_pages = swap_pages},
                                        .check_integrity = true}),
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
    auto result = outcome.Get();
    if (!result || !*result) {
      ADD_FAILURE() << (result ? result->error().text : "vanished");
      return {Slot{TokenSlot{0}}};
    }
    return std::move(**result);
  }
  uint32_t Feed(Fed& fed, const Tokens& tokens, std::vector<Brle> masks = {}) {
    return std::get<TokenSlot>(Run(Pass(fed, tokens, std::move(masks))).at(0)).token;
  }
  // A chain that feeds 20, then what it chooses.
  Forward Chained(Fed& fed, uint32_t max_tokens, std::function<void(uint32_t)> give) {
    Forward forward = Pass(fed, {20});
    forward.chain = std::make_unique<Chain>();
    forward.chain->max_tokens = max_tokens;
    forward.chain->give = [give = std::move(give)](uint32_t token, auto) { give(token); };
    return forward;
  }
  // All tokens that a chain gave, except the last one.
  void WasFed(Fed& fed, Tokens given) {
    given.pop_back();
    Tokens positions(given.size());
    std::iota(positions.begin(), positions.end(), fed.rows.size());
    fed.rows.Append({.tokens = given, .positions = positions, .masks = {}}, fed.rows.size());
  }
  std::vector<float> Logits(Fed& fed, uint32_t token) {
    Forward forward = Pass(fed, {token});
    forward.samples[0].kind = SampleSpec::Kind::kLogits;
    return std::get<LogitsSlot>(Run(std::move(forward)).at(0)).logits;
  }
  // The logits of a sequence that is fed all rows at once.
  std::vector<float> LogitsOf(const Rows& rows) {
    Forward forward;
    forward.sequence = scheduler_.Create();
    forward.tokens = rows.tokens;
    forward.positions = rows.positions;
    forward.attention = rows.masks;
    forward.samples = {{.kind = SampleSpec::Kind::kLogits, .rows = {rows.size() - 1}}};
    return std::get<LogitsSlot>(Run(std::move(forward)).at(0)).logits;
  }

  SchedulerStats Settled() {
    EXPECT_TRUE(scheduler_.WaitIdle(20'000));
    return scheduler_.stats();
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
           stored = kitchen.swap().Keep(std::move(content->rows), std::move(content->pages));
           done = true;
         });
         while (!done) std::this_thread::yield();
         fed.id = kitchen.scheduler().Open({}, stored);
       }},
      {"preemption",
       [](Kitchen& kitchen, Fed& fed) {
         kitchen.Feed(fed, {75});  // a sequence that was just opened has no pages to lose
         const uint64_t before = kitchen.Settled().suspensions;
         Fed greedy = kitchen.Create();
         kitchen.Feed(greedy, Tokens(kPages * kPageTokens - 1, 42));  // all pages of the device
         kitchen.scheduler().Drop(greedy.id);
         EXPECT_GT(kitchen.Settled().suspensions, before);
       }},
      {"prefix hit",
       [](Kitchen& kitchen, Fed& fed) {
         const Rows rows = fed.rows;
         fed = kitchen.Create();
         kitchen.Feed(fed, rows.tokens, rows.masks);
       }},
      {"chain",
       [](Kitchen& kitchen, Fed& fed) {
         Tokens given;
         kitchen.Run(kitchen.Chained(fed, 7, [&](uint32_t token) { given.push_back(token); }));
         kitchen.WasFed(fed, given);
       }},
      {"preempted chain",
       [](Kitchen& kitchen, Fed& fed) {
         // Another sequence holds nearly all other pages, and asks for more while the chain runs.
         kitchen.Feed(fed, {76});
         const uint32_t free = kPages - (fed.rows.size() + kPageTokens - 1) / kPageTokens;
         Fed rival = kitchen.Create();
         kitchen.Feed(rival, Tokens((free - 2) * kPageTokens - 1, 43));
         kitchen.scheduler().Bid(fed.id, {.fixed = 1});
         kitchen.scheduler().Bid(rival.id, {.fixed = 1000});
         Outcome outcome;
         Forward more = kitchen.Chained(rival, 17, [](uint32_t) {});
         more.done = outcome.Callback();
         Tokens given;
         uint64_t first = 0;
         uint64_t last = 0;
         kitchen.Run(kitchen.Chained(fed, 14, [&](uint32_t token) {
           given.push_back(token);
           last = kitchen.scheduler().stats().suspensions;
           if (given.size() != 2) return;
           first = last;
           kitchen.scheduler().Execute(std::move(more));
         }));
         EXPECT_GT(last, first) << "the chain's lane was never suspended";
         EXPECT_TRUE(outcome.Get() && *outcome.Get());
         kitchen.scheduler().Drop(rival.id);
         kitchen.WasFed(fed, given);
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
  uint32_t swap_pages;
};

class CompositionTest : public ::testing::TestWithParam<Case> {};

TEST_P(CompositionTest, AllPairsGiveWhatAPlainRecomputationGives) {
  Kitchen plain(GetParam().make(256), false, 0);
  uint64_t replayed = 0;
  uint64_t swapped = 0;
  for (const Ingredient& first : Ingredients()) {
    for (const Ingredient& second : Ingredients()) {
      Kitchen kitchen(GetParam().make(kPages), GetParam().share, GetParam().swap_pages);
      Fed fed = kitchen.Create();
      Tokens prompt(21);
      for (uint32_t i = 0; i < prompt.size(); ++i) prompt[i] = 30 + i * 7 % 60;
      kitchen.Feed(fed, prompt);
      first.add(kitchen, fed);
      second.add(kitchen, fed);
      const std::vector<float> logits = kitchen.Logits(fed, 33);
      EXPECT_TRUE(logits == plain.LogitsOf(fed.rows)) << first.name << ", then " << second.name;
      replayed += kitchen.Settled().replayed_tokens;
      swapped += kitchen.Settled().pages_swapped;
    }
  }
  EXPECT_GT(replayed + swapped, 0U);
  EXPECT_EQ(swapped > 0, GetParam().swap_pages > 0);
}

#ifdef PIE_CUDA_EMULATED  // cmake/cuda_emulator.cmake compiles this file once more
INSTANTIATE_TEST_SUITE_P(Emulated, CompositionTest,
                         ::testing::Values(Case{"Cuda", Cuda, true, 0},
                                           Case{"CudaSwap", Cuda, false, 1000}),
                         [](const auto& test) { return test.param.name; });
#endif
INSTANTIATE_TEST_SUITE_P(Devices, CompositionTest,
                         ::testing::Values(Case{"Dummy", Dummy, true, 0},
                                           Case{"DummyAlone", Dummy, false, 0},
                                           Case{"DummySwap", Dummy, false, 1000},
                                           Case{"Asynchronous", AsynchronousDummy, true, 0},
                                           Case{"AsynchronousSwap", AsynchronousDummy, false, 1000},
                                           Case{"TinyLlama", TinyLlama, true, 0},
                                           Case{"TinyLlamaAlone", TinyLlama, false, 0},
                                           Case{"TinyLlamaSwap", TinyLlama, true, 1000}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace pie
