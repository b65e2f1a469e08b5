#include "world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend/sampling.h"
#include "device.h"
#include "guest.h"

namespace pie::sim {
namespace {

// No guest waits longer for an answer: many times what a busy device needs for all passes. Where
// the scheduler is told to suspend a sequence every few steps, a pass may need the batches that
// compute its whole sequence again, so the limit is multiplied by their number.
constexpr int64_t kLongestWaitNs = 120'000'000'000;
constexpr uint64_t kMostRounds = 2'000'000;

class World {
 public:
  explicit World(const WorldOptions& options)
      : options_(options),
        random_(options.seed),
        dice_(random_),
        plenty_(dice_.OneIn(4)),
        device_(RandomDevice(), clock_, dice_, dice_.OneIn(4), options.batches_in_flight),
        store_(device_.info(), dice_.OneIn(16)),
        oracle_(device_.options()),
        loop_(device_, RandomScheduler(), queue_, clock_) {
    const Surroundings around{device_, queue_,  clock_,         dice_,
                              store_,  oracle_, next_sequence_, next_pass_};
    for (uint32_t i = 0; i < options.guests; ++i) {
      const uint32_t user = i / 2;  // two guests each
      guests_.push_back(std::make_unique<Guest>(GuestOptions{.user = user,
                                                             .account = AccountId{user + 1},
                                                             .salt = {.high = 7, .low = user},
                                                             .actions = options.actions,
                                                             .longest = longest_,
                                                             .faults = device_.faulty(),
                                                             .suspends = !plenty_},
                                                around));
    }
    for (uint32_t i = 0; i <= options.guests / 2; ++i) {
      queue_.Push(command::OpenAccount{.account = AccountId{i + 1},
                                       .endowment_pages = 1 + dice_.Below(20)});
    }
  }

  Result<WorldReport> Run() {
    for (uint64_t round = 0;; ++round) {
      if (round > kMostRounds) return Fail(Code::kInternal, "no end after {} rounds", round);
      bool over = true;
      for (const auto& guest : guests_) {
        PIE_RETURN_IF_ERROR(guest->Act());
        over &= guest->over();
      }
      if (over) break;
      PIE_RETURN_IF_ERROR(Round());
    }
    for (uint32_t i = 0; i <= options_.guests / 2; ++i) {
      queue_.Push(command::CloseAccount{AccountId{i + 1}});
    }
    while (!loop_.RunOnce()) {
    }
    PIE_RETURN_IF_ERROR(loop_.CheckIntegrity());
    const SchedulerStats stats = loop_.stats();
    if (stats.sequences + stats.pages_used + stats.queued > 0) {
      return Fail(Code::kInternal, "left behind: {} sequences, {} pages, {} passes",
                  stats.sequences, stats.pages_used, stats.queued);
    }
    // An opened sequence, too, is computed again only if it lost its pages.
    if (stats.suspensions == 0 && device_.replayed_rows() > 0) {
      return Fail(Code::kInternal, "{} rows were computed twice", device_.replayed_rows());
    }
    if (plenty_ && stats.suspensions > 0) {
      return Fail(Code::kInternal, "{} suspensions in plenty of memory", stats.suspensions);
    }
    report_.steps = stats.steps;
    report_.steps_ahead = stats.steps_ahead;
    report_.saved = store_.saved();
    report_.opened = store_.opened();
    report_.opened_adapted = store_.opened_adapted();
    report_.pages_restored = stats.pages_restored;
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
    if (plenty_) device.total_pages = 20 * options_.guests * longest_pages;
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
    options.memory.swap_always = dice_.OneIn(4);
    options.request_timeout_ms = 0;  // a guest that waits forever must be found
    if (!plenty_ && dice_.OneIn(6)) options.suspend_every_steps = 1 + dice_.Below(5);
    if (options.suspend_every_steps > 0) {
      longest_wait_ns_ *= std::max(longest_ / device_.options().max_batch_tokens, 1U);
    }
    return options;
  }

  Status Round() {
    const std::optional<StepLoop::Pause> pause = loop_.RunOnce();
    PIE_RETURN_IF_ERROR(loop_.CheckIntegrity());
    PIE_RETURN_IF_ERROR(device_.problem());
    if (loop_.stats().price > 0) ++report_.ticks_with_a_price;
    std::optional<int64_t> next;
    for (const auto& guest : guests_) {
      PIE_RETURN_IF_ERROR(guest->problem());
      if (const auto since = guest->waits_since_ns();
          since && clock_.NowNs() - *since > longest_wait_ns_) {
        return Fail(Code::kInternal, "a guest has waited for {} s",
                    longest_wait_ns_ / 1'000'000'000);
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
  int64_t longest_wait_ns_ = kLongestWaitNs;
  const bool plenty_;  // of memory: no sequence has to lose pages
  Device device_;
  Store store_;
  Oracle oracle_;
  CommandQueue queue_;
  StepLoop loop_;
  uint64_t next_sequence_ = 1;
  uint64_t next_pass_ = 1;
  std::vector<std::unique_ptr<Guest>> guests_;
  WorldReport report_;
};

}  // namespace

Result<WorldReport> RunWorld(const WorldOptions& options) {
  World world(options);
  return world.Run();
}

}  // namespace pie::sim
