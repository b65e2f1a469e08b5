// Context: a guest's view of a token sequence. It counts pages and tokens itself, checks every
// request against those counts, and only then passes the request on to the step thread, which
// follows in the same order. So no call here waits. One thread at a time may use a context.
//
// A chain runs ahead of the guest: the context counts only the tokens that its guest has taken. Any
// call that concerns the sequence ends the chain first, and drops the tokens that were not taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/byte_budget.h"
#include "host/chain_output.h"
#include "host/rows_charge.h"
#include "sched/scheduler.h"

namespace pie::host {

// How many pages and tokens a context has. A snapshot stores these counts.
struct Extent {
  uint32_t committed_pages = 0;
  uint32_t working_pages = 0;
  uint32_t working_tokens = 0;
};

// How a pass with drafts ended. The step thread writes `kept`, then `ready`.
struct DraftVerdict {
  std::atomic<bool> ready = false;
  uint32_t kept = 0;  // drafts that the sequence keeps
};

// How the last step of a context was sampled, for a step that repeats it.
struct StepRecipe {
  std::optional<SampleSpec> sampler;   // none: the step cannot be repeated
  std::optional<uint64_t> seed;        // of the next step
  std::optional<uint32_t> future;      // the handle of a repeated step that runs
  std::optional<std::string> problem;  // why the last repeated step failed
};

class Context {
 public:
  Context(Scheduler* scheduler, uint32_t model, SequenceId sequence, Extent extent)
      : scheduler_(scheduler),
        model_(model),
        sequence_(sequence),
        extent_(extent),
        rows_(PageRowBytes(page_tokens()),
              extent.committed_pages + PagesOf(extent.working_tokens)) {}
  ~Context() { Destroy(); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Keeps the charge for the attention masks of the context's last rows, one number of bytes for
  // each, until the rows are truncated or the context is destroyed. A fork is charged for them as
  // well.
  void KeepMasks(Charge masks, std::span<const size_t> bytes);
  // The memory that the rows of the file take from which the context was opened; 0 if there is
  // none. SetStored is called once, before any other thread knows of the context.
  void SetStored(size_t bytes) { stored_bytes_ = bytes; }
  size_t stored_bytes() const { return stored_bytes_; }
  // Keeps the charges for the file that the context was opened from, and for the memory of its
  // rows. Both may stay as long as the context or a fork of it lives.
  void CountOpened(Charge file, Charge rows) {
    opened_ = std::make_shared<Opened>(std::move(file), std::move(rows));
  }
  // The attention masks of the context's rows, in bytes, with all that its file had.
  size_t mask_bytes() const { return masks_.bytes() + stored_bytes_ / 2; }
  // Keeps the charge for the context itself until the context is destroyed.
  void Count(Charge charge) { charge_ = std::move(charge); }
  // From now on, charges `payer`, an empty charge of a budget, for the rows of all further passes.
  // Rows that the context has already were charged by CountOpened, or are charged to the context of
  // which this one is a fork.
  void PayRowsFrom(Charge payer) { rows_.PayFrom(std::move(payer)); }
  uint32_t model() const { return model_; }  // index of the engine's model
  SequenceId sequence() const { return sequence_; }
  StepRecipe& step_recipe() { return step_recipe_; }
  Scheduler& scheduler() const { return *scheduler_; }
  // The tokens of its passes that were found in the prefix cache, as far as the passes have begun.
  uint64_t cached_tokens() const { return cached_tokens_->load(std::memory_order_relaxed); }
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
  // Makes another sequence with the present content, for a snapshot.
  Result<SequenceId> Copy() const;
  Status Commit(uint32_t pages);
  Status Reserve(uint32_t pages);
  Status Release(uint32_t pages);
  Status Truncate(uint32_t tokens);
  Status Suspend();  // gives the pages back; the next pass restores them
  void Destroy();

  // These set the bid for the context's pages (BidPlan). The step thread gets the new bid before
  // its next batch.
  void Bid(double credits);
  void Expect(std::optional<double> steps, double variation);
  void SetIdle(bool idle);
  void BidOnce(double credits) { next_bid_ = credits; }  // for the next pass only

  // Queues a pass whose tokens extend this context.
  Status Execute(Forward forward);
  // Queues a pass whose last tokens are drafts. Until there is a verdict on the drafts, every other
  // call on the context fails.
  Status ExecuteDrafts(Forward forward, std::shared_ptr<const DraftVerdict> verdict);
  // Queues a pass with a chain, whose tokens go to `output`. The first `own` tokens of the pass are
  // its input; the tokens after them belong to the chain.
  Status Run(Forward forward, uint32_t own, std::shared_ptr<ChainOutput> output);
  // How many passes may follow a pass of these tokens and positions. The pass after those fails
  // with `error`.
  struct Room {
    uint64_t passes;
    Error error;
  };
  Room RoomBehind(const Forward& forward) const;
  // Takes the tokens that the chain has gathered, and counts them as if a pass of its own had fed
  // each of them.
  Result<ChainOutput::Taken> Take();
  bool runs(const ChainOutput& output) const { return chain_.get() == &output; }
  // Ends the chain and drops the tokens that the guest has not taken. It is const because the
  // guest, which has not seen these tokens, cannot notice the difference.
  void EndChain() const;

 private:
  // Queues a pass, and counts the first `own` of its tokens. The working pages must have room for
  // `room` tokens.
  Status Queue(Forward forward, uint32_t own, uint32_t room);
  uint32_t PagesOf(uint64_t tokens) const {
    return static_cast<uint32_t>((tokens + page_tokens() - 1) / page_tokens());
  }
  // Charges for the rows of the first `tokens` tokens.
  Status CoverRows(uint64_t tokens);
  // Counts the drafts that were kept. Fails if there is no verdict yet.
  Status CountDrafts() const;
  void CountPass(uint32_t tokens);
  // Ends the charge for truncated rows and their masks.
  void ForgetRows();
  // The charges of a context that was opened from a file.
  struct Opened {
    Opened(Charge of_file, Charge of_rows) : file(std::move(of_file)), rows(std::move(of_rows)) {}
    Charge file, rows;
  };

  Scheduler* scheduler_;
  uint32_t model_;
  SequenceId sequence_;
  mutable Extent extent_;
  Charge charge_, masks_;
  mutable RowsCharge rows_;  // a fork shares it
  struct MaskedRow {
    uint32_t row = 0;
    size_t bytes = 0;
  };
  std::vector<MaskedRow> masked_rows_;  // in order
  std::shared_ptr<Opened> opened_;      // null: the context was not opened from a file
  size_t stored_bytes_ = 0;
  // Passes share it, because they may outlive the context.
  std::shared_ptr<std::atomic<uint64_t>> cached_tokens_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  BidPlan bids_;
  std::optional<double> next_bid_;
  mutable std::shared_ptr<ChainOutput>
      chain_;  // the running chain; the guest has not taken all of its tokens
  mutable std::shared_ptr<const DraftVerdict> verdict_;
  bool first_taken_ = false;  // the guest has taken the chain's first token, which no pass has fed
  bool destroyed_ = false;
  StepRecipe step_recipe_;
};

}  // namespace pie::host
