#include "world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend/sampling.h"
#include "device.h"
#include "guest.h"

namespace pie::sim {
namespace {

// Nobody waits longer for an answer: many times what a busy device needs for everybody's passes.
constexpr int64_t kLongestWaitNs = 120'000'000'000;
constexpr uint64_t kMostTurns = 2'000'000;

class World {
 public:
  explicit World(const WorldOptions& options)
      : options_(options),
        random_(options.seed),
        dice_(random_),
        device_options_(RandomDevice()),
        device_(device_options_, clock_, dice_, dice_.OneIn(4)),
        loop_(device_, RandomScheduler(), queue_, clock_) {
    for (uint32_t i = 0; i < options.guests; ++i) {
      guests_.push_back(std::make_unique<Guest>(
          GuestOptions{.account = AccountId{i / 2 + 1},  // two guests a user
                       .salt = {.high = 7, .low = i / 2},
                       .actions = options.actions,
                       .longest = longest_,
                       .faults = device_.faulty()},
          device_options_, queue_, clock_, dice_, next_sequence_));
    }
    for (uint32_t i = 0; i <= options.guests / 2; ++i) {
      queue_.Push({.kind = Command::Kind::kOpenAccount,
                   .tokens = 1 + dice_.Below(20),
                   .account = AccountId{i + 1}});
    }
  }

  Result<WorldReport> Run() {
    for (uint64_t turn = 0;; ++turn) {
      if (turn > kMostTurns) return Fail(Code::kInternal, "no end after {} turns", turn);
      bool over = true;
      for (const auto& guest : guests_) {
        PIE_RETURN_IF_ERROR(guest->Act());
        over &= guest->over();
      }
      if (over) break;
      PIE_RETURN_IF_ERROR(Turn());
    }
    for (uint32_t i = 0; i <= options_.guests / 2; ++i) {
      queue_.Push({.kind = Command::Kind::kCloseAccount, .account = AccountId{i + 1}});
    }
    while (!loop_.Turn()) {
    }
    PIE_RETURN_IF_ERROR(loop_.CheckIntegrity());
    const SchedulerStats stats = loop_.stats();
    if (stats.sequences + stats.pages_used + stats.queued > 0) {
      return Fail(Code::kInternal, "left behind: {} sequences, {} pages, {} passes",
                  stats.sequences, stats.pages_used, stats.queued);
    }
    report_.steps = stats.steps;
    report_.suspensions = stats.suspensions;
    report_.replayed_tokens = stats.replayed_tokens;
    for (const auto& guest : guests_) {
      PIE_RETURN_IF_ERROR(guest->CheckEnded());
      report_.answers += guest->answers();
      report_.failures += guest->failures();
      report_.longest_wait_ns = std::max(report_.longest_wait_ns, guest->longest_wait_ns());
    }
    return report_;
  }

 private:
  DummyOptions RandomDevice() {
    DummyOptions device;
    device.seed = options_.seed;
    device.page_tokens = dice_.Of({1U, 2U, 4U, 16U});
    longest_ = device.page_tokens * (2 + dice_.Below(12));
    const uint32_t longest_pages = longest_ / device.page_tokens;
    device.total_pages = longest_pages + dice_.Below(longest_pages * 4);
    device.max_batch_tokens = dice_.Of({3U, 16U, 64U, 512U});
    device.max_batch_members = dice_.Of({1U, 3U, 8U, 64U});
    device.max_positions = 4096;
    return device;
  }
  SchedulerOptions RandomScheduler() {
    SchedulerOptions options;
    options.batch_policy =
        dice_.Of({BatchPolicy::kGreedy, BatchPolicy::kEager, BatchPolicy::kAdaptive});
    options.prefix.share = !dice_.OneIn(3);
    options.memory.endowment_pages = 1 + dice_.Below(20);
    options.memory.oversubscription = dice_.Of({0.5, 1.0, 2.0});
    options.memory.restore_pause_at = dice_.Of({0.3, 0.85, 1.0});
    options.memory.overdue_ms = dice_.Of({1U, 50U, 2000U});
    options.memory.swap_pages = dice_.Of({0U, 0U, 5U, 1000U});
    options.request_timeout_ms = 0;  // whoever waits for ever is to be found
    return options;
  }

  Status Turn() {
    const std::optional<StepLoop::Pause> pause = loop_.Turn();
    PIE_RETURN_IF_ERROR(loop_.CheckIntegrity());
    if (loop_.stats().price > 0) ++report_.ticks_with_a_price;
    std::optional<int64_t> next;
    for (const auto& guest : guests_) {
      PIE_RETURN_IF_ERROR(guest->problem());
      if (const auto since = guest->waits_since_ns();
          since && clock_.NowNs() - *since > kLongestWaitNs) {
        return Fail(Code::kInternal, "a guest has waited for {} s", kLongestWaitNs / 1'000'000'000);
      }
      if (const auto wakes = guest->wakes_at_ns()) next = std::min(next.value_or(*wakes), *wakes);
    }
    if (!pause || queue_.pending()) return {};
    if (pause->timeout) {
      const int64_t until = clock_.NowNs() + std::max<int64_t>(pause->timeout->count(), 1);
      next = std::min(next.value_or(until), until);
    }
    if (!next) return Fail(Code::kInternal, "all wait, and nothing will happen");
    if (*next > clock_.NowNs()) clock_.AdvanceNs(*next - clock_.NowNs());
    return {};
  }

  const WorldOptions options_;
  std::mt19937_64 random_;
  Dice dice_;
  ManualClock clock_;
  uint32_t longest_ = 0;
  const DummyOptions device_options_;
  Device device_;
  CommandQueue queue_;
  StepLoop loop_;
  uint64_t next_sequence_ = 1;
  std::vector<std::unique_ptr<Guest>> guests_;
  WorldReport report_;
};

}  // namespace

Result<WorldReport> RunWorld(const WorldOptions& options) {
  World world(options);
  return world.Run();
}

}  // namespace pie::sim
