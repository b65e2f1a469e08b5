// Launches that end in every possible way, and users who ask for more memory than there is.
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "soak.h"

namespace pie::soak {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = wasm::Exit::Kind;

// Memory may grow by this much: allocators keep what they freed, and caches fill.
constexpr uint64_t kGrowth = uint64_t{64} << 20;
constexpr size_t kAtOnce = 64;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Ends {
  uint64_t all = 0;
  uint64_t returned = 0;
};

// Launches one inferlet after another. About 35 % are cancelled, trap, fail or run out of tokens.
Ends Launch(host::Engine& engine, std::mt19937_64& random, uint64_t most, double seconds) {
  struct Running {
    std::shared_ptr<host::Process> process;
    Clock::time_point cancel_at;
    bool cancels;
  };
  std::deque<Running> running;
  Ends ends;
  const auto begin = Clock::now();
  const auto end_oldest = [&] {
    Running& oldest = running.front();
    if (oldest.cancels) {
      std::this_thread::sleep_until(oldest.cancel_at);
      oldest.process->Cancel();
    }
    ends.returned += oldest.process->Wait().kind == Kind::kReturned ? 1 : 0;
    running.pop_front();
  };
  while (ends.all < most && SecondsSince(begin) < seconds) {
    const uint64_t dice = random() % 100;
    std::string input = fmt::format(R"({{"mode": "generate", "n": {}}})", 1 + random() % 40);
    host::Process::Options options{.username = fmt::format("user {}", random() % 7)};
    if (dice < 5) input = R"({"mode": "trap"})";
    if (dice >= 5 && dice < 8) input = R"({"mode": "fail"})";
    if (dice >= 8 && dice < 13) options.token_budget = std::make_shared<host::ByteBudget>(3);
    if (dice >= 13 && dice < 18) input = R"({"mode": "sleep"})";
    auto process = engine.Launch("bench-soak", input, std::move(options));
    if (!process) throw std::runtime_error(process.error().text);
    const bool cancels = dice >= 13 && dice < 35;
    running.push_back({.process = *std::move(process),
                       .cancel_at = Clock::now() + std::chrono::microseconds(random() % 3'000),
                       .cancels = cancels});
    ++ends.all;
    if (cancels && dice % 2 == 0) {  // at once, or within a few milliseconds
      running.back().process->Cancel();
    }
    while (running.size() >= kAtOnce) end_oldest();
  }
  while (!running.empty()) end_oldest();
  return ends;
}

uint64_t Difference(uint64_t a, uint64_t b) {
  return a > b ? a - b : b - a;
}

}  // namespace

nlohmann::json RunLaunches(const Options& options) {
  auto engine = StartEngine(options, {.total_pages = 8'192});
  std::mt19937_64 random(options.seed);
  Launch(*engine, random, 2'000, 30);  // fills caches and pools
  const Counters before = Count(*engine);
  const auto begin = Clock::now();
  const uint64_t most = options.launches > 0 ? options.launches : UINT64_MAX;
  const double seconds = options.launches > 0 ? 1e9 : options.seconds;
  const Ends ends = Launch(*engine, random, most, seconds);
  const Counters after = CountUntil(*engine, before);
  const uint64_t grown =
      after.resident_bytes - std::min(after.resident_bytes, before.resident_bytes);
  uint64_t leaked = grown > kGrowth ? 1 : 0;
  for (const auto& [name, count] : before.held) leaked += Difference(count, after.held.at(name));
  nlohmann::json figures = {
      {"soak_launches", ends.all},
      {"soak_launches_returned", ends.returned},
      {"soak_launches_per_s", static_cast<double>(ends.all) / SecondsSince(begin)},
      {"soak_grown_mb", static_cast<double>(grown) / 1e6},
      {"soak_leaked", leaked}};
  const std::string what = Differences(before, after);
  if (!what.empty()) figures["soak_leaked_what"] = what;
  return figures;
}

nlohmann::json RunOverload(const Options& options) {
  constexpr uint32_t kPages = 256;
  constexpr uint32_t kPageTokens = 16;
  constexpr uint32_t kEach = 16;     // inferlets of a user that run at the same time
  constexpr uint32_t kTokens = 512;  // of each: 2 × 16 × 32 pages are four times what there is
  auto engine =
      StartEngine(options, {.page_tokens = kPageTokens, .total_pages = kPages, .latency_us = 100});
  const auto begin = Clock::now();
  struct User {
    std::string name;
    std::atomic<uint64_t> tokens = 0;
  };
  User users[] = {{"ada"}, {"grace"}};
  std::mutex mutex;
  uint64_t longest_ms = 0;
  std::vector<std::string> failures;
  std::vector<std::thread> threads;
  const std::string input = fmt::format(R"({{"mode": "generate", "n": {}}})", kTokens);
  for (User& user : users) {
    for (uint32_t i = 0; i < kEach; ++i) {
      threads.emplace_back([&] {
        while (SecondsSince(begin) < options.seconds) {
          auto process = engine->Launch("bench-soak", input, {.username = user.name});
          const wasm::Exit exit =
              process ? (*process)->Wait() : wasm::Exit{Kind::kFailed, process.error().text};
          std::lock_guard lock(mutex);
          if (exit.kind != Kind::kReturned) {
            failures.push_back(exit.text);
            continue;
          }
          uint64_t tokens = 0;
          uint64_t wait_ms = 0;
          std::istringstream(exit.text) >> tokens >> wait_ms;
          user.tokens += tokens;
          longest_ms = std::max(longest_ms, wait_ms);
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = SecondsSince(begin);
  const auto [least, most] = std::minmax(users[0].tokens.load(), users[1].tokens.load());
  nlohmann::json figures = {
      {"soak_overload_s", seconds},
      {"soak_overload_tokens_per_s", static_cast<double>(least + most) / seconds},
      {"soak_overload_max_wait_s", static_cast<double>(longest_ms) / 1e3},
      {"soak_overload_failures", failures.size()},
      {"soak_fair_share_ratio",
       most == 0 ? 0.0 : static_cast<double>(least) / static_cast<double>(most)}};
  if (!failures.empty()) figures["soak_overload_why"] = failures.front();
  return figures;
}

}  // namespace pie::soak
