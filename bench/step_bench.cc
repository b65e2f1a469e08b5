#include "step_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "base/clock.h"
#include "sched/step_loop.h"

namespace pie {
namespace {

using Time = std::chrono::steady_clock;

// A device that counts the time spent in it.
class TimedBackend final : public Backend {
 public:
  explicit TimedBackend(const DummyOptions& options) : dummy_(MakeDummyBackend(options)) {}
  const BackendInfo& info() const override { return dummy_->info(); }
  Result<Ticket> Submit(const Batch& batch) override {
    const auto start = Time::now();
    auto ticket = dummy_->Submit(batch);
    spent += Time::now() - start;
    return ticket;
  }
  Result<BatchOutput> Wait(Ticket ticket) override {
    const auto start = Time::now();
    auto output = dummy_->Wait(ticket);
    spent += Time::now() - start;
    return output;
  }
  Status ReadPage(PageId page, std::span<std::byte> content) override {
    return dummy_->ReadPage(page, content);
  }
  Status WritePage(PageId page, std::span<const std::byte> content) override {
    return dummy_->WritePage(page, content);
  }

  Time::duration spent = {};

 private:
  std::unique_ptr<Backend> dummy_;
};

// A sequence that asks for its next token as soon as it has one.
void Ask(CommandQueue& queue, SequenceId sequence, uint32_t position) {
  auto pass = std::make_unique<ScheduledPass>();
  pass->forward.sequence = sequence;
  pass->forward.tokens = {'a'};
  pass->forward.positions = {position};
  pass->forward.samples = {{.rows = {0}}};
  pass->forward.done = [&queue, sequence, position](Result<std::vector<Slot>> slots) {
    if (slots) Ask(queue, sequence, position + 1);
  };
  queue.Push(command::Execute{std::move(pass)});
}

}  // namespace

double StepOverheadUs(int members) {
  constexpr int kSteps = 2'000;
  TimedBackend backend({.total_pages = 1 << 16});
  CommandQueue queue;
  StepLoop loop(backend, {}, queue, SteadyClock::Get());
  for (int i = 1; i <= members; ++i) {
    const SequenceId sequence{static_cast<uint64_t>(i)};
    // Each has its own beginning. Equal beginnings would share pages.
    queue.Push(command::Create{.sequence = sequence, .salt = {.high = 1, .low = sequence.value}});
    Ask(queue, sequence, 0);
  }
  std::vector<double> us;
  while (us.size() < kSteps) {
    backend.spent = {};
    const auto start = Time::now();
    if (loop.RunOnce()) continue;
    const auto own = Time::now() - start - backend.spent;
    us.push_back(std::chrono::duration<double, std::micro>(own).count());
  }
  std::ranges::sort(us);
  return us[us.size() / 2];
}

}  // namespace pie
