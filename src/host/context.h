// Context: a guest's view of a token sequence. Counts pages and tokens itself, checks every request
// against those counts, and only then passes it on to the step thread, which follows in the same
// order. So no call here waits. One thread at a time.
//
// A chain runs ahead: the context counts the tokens that its guest has taken, and no others. Any
// call that is about the sequence itself ends the chain first, and forgets what was not taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "host/byte_budget.h"
#include "host/chain_output.h"
#include "sched/scheduler.h"

namespace pie::host {

// How many pages and tokens a context has; what a snapshot remembers of it.
struct Extent {
  uint32_t committed_pages = 0;
  uint32_t working_pages = 0;
  uint32_t working_tokens = 0;
};

// How a pass with drafts ended. Written by the step thread, before `ready`.
struct DraftVerdict {
  std::atomic<bool> ready = false;
  uint32_t kept = 0;  // drafts that the sequence keeps
};

class Context {
 public:
  Context(Scheduler* scheduler, uint32_t model, SequenceId sequence, Extent extent)
      : scheduler_(scheduler), model_(model), sequence_(sequence), extent_(extent) {}
  ~Context() { Destroy(); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Charges for the masks of rows that it was fed. They are held until it is destroyed; a fork has
  // them too.
  void KeepMasks(Charge masks) { masks_.Absorb(std::move(masks)); }
  // The file that it was opened from may stay open as long as it or a fork of it lives.
  void CountOpened(Charge charge) { opened_ = std::make_shared<Charge>(std::move(charge)); }
  // Counts it to its user until it is destroyed.
  void Count(Charge charge) { charge_ = std::move(charge); }
  uint32_t model() const { return model_; }  // index of the engine's model
  SequenceId sequence() const { return sequence_; }
  Scheduler& scheduler() const { return *scheduler_; }
  const Extent& extent() const {
    static_cast<void>(CountDrafts());
    return extent_;
  }
  uint32_t page_tokens() const { return scheduler_->info().page_tokens; }
  uint32_t tokens() const {
    return extent().committed_pages * page_tokens() + extent_.working_tokens;
  }

  Status CheckAlive() const;
  Result<std::unique_ptr<Context>> Fork() const;
  // A sequence of its own with the present content, for a snapshot.
  Result<SequenceId> Copy() const;
  Status Commit(uint32_t pages);
  Status Reserve(uint32_t pages);
  Status Release(uint32_t pages);
  Status Truncate(uint32_t tokens);
  Status Suspend();  // gives its pages back; the next pass restores them
  void Destroy();

  // What it bids for its pages (BidPlan). The step thread hears of it before its next batch.
  void Bid(double credits);
  void Expect(std::optional<double> steps, double variation);
  void SetIdle(bool idle);
  void BidOnce(double credits) { next_bid_ = credits; }  // for the next pass alone

  // Queues a pass whose tokens extend this context.
  Status Execute(Forward forward);
  // The same for a pass whose last tokens are drafts. Until there is a verdict on them, every other
  // call on the context fails.
  Status ExecuteDrafts(Forward forward, std::shared_ptr<const DraftVerdict> verdict);
  // The same for a pass with a chain, whose tokens go to `output`. The tokens behind the first
  // `own` of the pass are the chain's.
  Status Run(Forward forward, uint32_t own, std::shared_ptr<ChainOutput> output);
  // How many passes may follow one of these tokens and positions before `error` would come.
  struct Room {
    uint64_t passes;
    Error error;
  };
  Room RoomBehind(const Forward& forward) const;
  // What its chain has gathered, counted as if each token had been fed by a pass of its own.
  Result<ChainOutput::Taken> Take();
  bool runs(const ChainOutput& output) const { return chain_.get() == &output; }
  // The guest cannot tell, because it has not seen the tokens that it did not take.
  void EndChain() const;

 private:
  // Queues a pass, and counts the first `own` of its tokens. `room` is for how many there must be
  // places.
  Status Queue(Forward forward, uint32_t own, uint32_t room);
  // Counts the drafts that were kept. Fails if there is no verdict yet.
  Status CountDrafts() const;
  void CountPass(uint32_t tokens);
  Scheduler* scheduler_;
  uint32_t model_;
  SequenceId sequence_;
  mutable Extent extent_;
  Charge charge_, masks_;
  std::shared_ptr<Charge> opened_;  // null: it was not opened from a file
  BidPlan bids_;
  std::optional<double> next_bid_;
  mutable std::shared_ptr<ChainOutput>
      chain_;  // the running chain, of which the guest has not taken all tokens
  mutable std::shared_ptr<const DraftVerdict> verdict_;
  bool first_taken_ = false;  // of its tokens: the one that no pass fed
  bool destroyed_ = false;
};

}  // namespace pie::host
