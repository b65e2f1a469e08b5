#include "sched/scheduler.h"

#include <pthread.h>

#include <atomic>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/limits.h"
#include "sched/queue.h"
#include "sched/read_cost.h"
#include "sched/step_loop.h"

namespace pie {

struct Scheduler::Impl {
  Impl(std::unique_ptr<Backend> device, const SchedulerOptions& options)
      : backend(std::move(device)),
        endowment_pages(options.memory.endowment_pages),
        chains(options.chains),
        loop(*backend, options, queue, SteadyClock::Get()),
        thread([this] {
          pthread_setname_np(pthread_self(), "pie-step");
          CommandQueue::NeverWaitHere();
          loop.Run();
        }) {}
  ~Impl() {
    queue.Close();
    thread.join();
  }

  const std::unique_ptr<Backend> backend;
  const uint32_t endowment_pages;
  const bool chains;
  CommandQueue queue;
  StepLoop loop;
  std::atomic<uint64_t> next_sequence = 1;
  std::atomic<uint64_t> next_account = 1;
  std::atomic<int64_t> asked_ns = 0;  // when a view was last asked for
  std::thread thread;                 // last: it uses the rest
};

Scheduler::Scheduler(std::unique_ptr<Backend> backend, SchedulerOptions options)
    : impl_(std::make_unique<Impl>(std::move(backend), options)) {}
Scheduler::~Scheduler() = default;

const BackendInfo& Scheduler::info() const {
  return impl_->backend->info();
}

bool Scheduler::chains_allowed() const {
  return impl_->chains;
}

Result<DeviceAdapterPtr> Scheduler::LoadAdapter(const AdapterWeights& weights) const {
  PIE_RETURN_IF_ERROR(CheckFits(weights, info().adapters));
  return impl_->backend->LoadAdapter(weights);
}

void Scheduler::SetMeanwhile(std::shared_ptr<Meanwhile> meanwhile) {
  impl_->queue.SetMeanwhile(meanwhile);
  impl_->queue.Push(command::UseMeanwhile{std::move(meanwhile)});
}

SequenceId Scheduler::Create(const CacheSalt& salt, AccountId account) {
  return Open(salt, nullptr, account);
}

SequenceId Scheduler::Open(const CacheSalt& salt, std::shared_ptr<const StoredKv> stored,
                           AccountId account, AdaptersByVersion adapters) {
  const SequenceId id{impl_->next_sequence.fetch_add(1, std::memory_order_relaxed)};
  impl_->queue.Push(command::Create{.sequence = id,
                                    .salt = salt,
                                    .account = account,
                                    .stored = std::move(stored),
                                    .adapters = std::move(adapters)});
  return id;
}

void Scheduler::Read(SequenceId sequence, uint32_t first_page, uint32_t pages,
                     std::move_only_function<void(Result<KvContent>)> done) {
  impl_->queue.Push(command::Read{
      sequence, std::make_unique<KvRead>(KvRead{first_page, pages, std::move(done)})});
}

SequenceId Scheduler::Fork(SequenceId parent, AccountId account) {
  const SequenceId id{impl_->next_sequence.fetch_add(1, std::memory_order_relaxed)};
  impl_->queue.Push(command::Fork{.parent = parent, .child = id, .account = account});
  return id;
}

void Scheduler::Truncate(SequenceId sequence, uint32_t tokens) {
  impl_->queue.Push(command::Truncate{sequence, tokens});
}

void Scheduler::Suspend(SequenceId sequence) {
  impl_->queue.Push(command::Suspend{sequence});
}

void Scheduler::Bid(SequenceId sequence, const BidPlan& bids) {
  impl_->queue.Bid(sequence, bids);
}

void Scheduler::Own(SequenceId sequence, AccountId account) {
  impl_->queue.Push(command::Own{sequence, account});
}

AccountId Scheduler::OpenAccount(std::shared_ptr<AccountView> view) {
  const uint32_t endowment_pages = impl_->endowment_pages;
  const AccountId id{impl_->next_account.fetch_add(1, std::memory_order_relaxed)};
  view->balance.store(Credits{endowment_pages} * kCredit, std::memory_order_relaxed);
  impl_->queue.Push(command::OpenAccount{
      .account = id, .endowment_pages = endowment_pages, .view = std::move(view)});
  return id;
}

void Scheduler::CloseAccount(AccountId account) {
  impl_->queue.Push(command::CloseAccount{account});
}

void Scheduler::Drop(SequenceId sequence, std::shared_ptr<const void> held) {
  impl_->queue.Push(command::Drop{.sequence = sequence, .held = std::move(held)});
}

void Scheduler::Execute(Forward forward) {
  PIE_CHECK(!forward.tokens.empty() && forward.positions.size() == forward.tokens.size());
  auto pass = std::make_unique<ScheduledPass>();
  pass->first_read = FirstRead(forward);
  pass->read_costs = ReadCosts(forward, info().vocab_size);
  if (pass->read_costs.empty()) {
    pass->further_reading = FurtherReading(forward, info().vocab_size);
  }
  pass->forward = std::move(forward);
  if (pass->forward.chain) pass->chained = pass->forward.chain->given;
  impl_->queue.Push(command::Execute{std::move(pass)});
}

std::shared_ptr<const View> Scheduler::Watch() const {
  constexpr int64_t kPauseNs = 200'000'000;
  const int64_t now_ns = SteadyClock::Get().NowNs();
  int64_t asked_ns = impl_->asked_ns.load(std::memory_order_relaxed);
  // A queue that is nearly full could make the caller wait, and then there is enough to do anyway.
  if (now_ns - asked_ns >= kPauseNs && impl_->queue.size() < limits::kQueuedCommands / 2 &&
      impl_->asked_ns.compare_exchange_strong(asked_ns, now_ns)) {
    impl_->queue.Push(command::Look{});
  }
  return impl_->loop.view();
}

SchedulerStats Scheduler::stats() const {
  return impl_->loop.stats();
}

bool Scheduler::WaitIdle(int timeout_ms) {
  auto fence = std::make_shared<Fence>();
  impl_->queue.Push(command::Await{fence});
  return fence->WaitFor(std::chrono::milliseconds(timeout_ms));
}

}  // namespace pie
