#include "sched/scheduler.h"

#include <pthread.h>

#include <atomic>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "sched/queue.h"
#include "sched/step_loop.h"

namespace pie {

struct Scheduler::Impl {
  Impl(std::unique_ptr<Backend> device, const SchedulerOptions& options)
      : backend(std::move(device)),
        endowment_pages(options.memory.endowment_pages),
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
  CommandQueue queue;
  StepLoop loop;
  std::atomic<uint64_t> next_sequence = 1;
  std::atomic<uint64_t> next_account = 1;
  std::thread thread;  // last: it uses the rest
};

Scheduler::Scheduler(std::unique_ptr<Backend> backend, SchedulerOptions options)
    : impl_(std::make_unique<Impl>(std::move(backend), options)) {}
Scheduler::~Scheduler() = default;

const BackendInfo& Scheduler::info() const {
  return impl_->backend->info();
}

void Scheduler::SetMeanwhile(std::shared_ptr<Meanwhile> meanwhile) {
  impl_->queue.Push({.kind = Command::Kind::kMeanwhile, .meanwhile = std::move(meanwhile)});
}

SequenceId Scheduler::Create(const CacheSalt& salt, AccountId account) {
  const SequenceId id{impl_->next_sequence.fetch_add(1, std::memory_order_relaxed)};
  impl_->queue.Push(
      {.kind = Command::Kind::kCreate, .sequence = id, .salt = salt, .account = account});
  return id;
}

SequenceId Scheduler::Open(const CacheSalt& salt, std::shared_ptr<const StoredKv> stored,
                           AccountId account) {
  const SequenceId id{impl_->next_sequence.fetch_add(1, std::memory_order_relaxed)};
  impl_->queue.Push({.kind = Command::Kind::kCreate,
                     .sequence = id,
                     .salt = salt,
                     .stored = std::move(stored),
                     .account = account});
  return id;
}

void Scheduler::Read(SequenceId sequence, uint32_t first_page, uint32_t pages,
                     std::move_only_function<void(Result<KvContent>)> done) {
  impl_->queue.Push({.kind = Command::Kind::kRead,
                     .sequence = sequence,
                     .read = std::make_unique<KvRead>(KvRead{first_page, pages, std::move(done)})});
}

SequenceId Scheduler::Fork(SequenceId parent, AccountId account) {
  const SequenceId id{impl_->next_sequence.fetch_add(1, std::memory_order_relaxed)};
  impl_->queue.Push(
      {.kind = Command::Kind::kFork, .sequence = parent, .child = id, .account = account});
  return id;
}

void Scheduler::Truncate(SequenceId sequence, uint32_t tokens) {
  impl_->queue.Push({.kind = Command::Kind::kTruncate, .sequence = sequence, .tokens = tokens});
}

void Scheduler::Suspend(SequenceId sequence) {
  impl_->queue.Push({.kind = Command::Kind::kSuspend, .sequence = sequence});
}

void Scheduler::Bid(SequenceId sequence, double bid) {
  impl_->queue.Push({.kind = Command::Kind::kBid, .sequence = sequence, .bid = bid});
}

void Scheduler::Own(SequenceId sequence, AccountId account) {
  impl_->queue.Push({.kind = Command::Kind::kOwn, .sequence = sequence, .account = account});
}

AccountId Scheduler::OpenAccount(std::shared_ptr<AccountView> view) {
  const uint32_t endowment_pages = impl_->endowment_pages;
  const AccountId id{impl_->next_account.fetch_add(1, std::memory_order_relaxed)};
  view->balance.store(Credits{endowment_pages} * kCredit, std::memory_order_relaxed);
  impl_->queue.Push({.kind = Command::Kind::kOpenAccount,
                     .tokens = endowment_pages,
                     .account = id,
                     .view = std::move(view)});
  return id;
}

void Scheduler::CloseAccount(AccountId account) {
  impl_->queue.Push({.kind = Command::Kind::kCloseAccount, .account = account});
}

void Scheduler::Drop(SequenceId sequence) {
  impl_->queue.Push({.kind = Command::Kind::kDrop, .sequence = sequence});
}

void Scheduler::Execute(Forward forward) {
  auto pass = std::make_unique<Pass>();
  pass->rejected = FindFault(forward, info());
  pass->first_read = FirstRead(forward);
  pass->forward = std::move(forward);
  const SequenceId sequence = pass->forward.sequence;
  impl_->queue.Push(
      {.kind = Command::Kind::kExecute, .sequence = sequence, .pass = std::move(pass)});
}

SchedulerStats Scheduler::stats() const {
  return impl_->loop.stats();
}

bool Scheduler::WaitIdle(int timeout_ms) {
  auto fence = std::make_shared<Fence>();
  impl_->queue.Push({.kind = Command::Kind::kFence, .fence = fence});
  return fence->WaitFor(std::chrono::milliseconds(timeout_ms));
}

}  // namespace pie
