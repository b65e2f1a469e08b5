// MatcherRules: the rules of a pass or a chain (TokenRules in sched/), made of matchers of grammars
// and a logit mask. A thread of the engine makes the masks while the device runs, if there is such
// a thread. A device that needs a mask earlier makes it itself.
//
// Grammars are not trusted, and a mask of an expensive one takes many milliseconds. The time for
// which they hold up the step thread or a device is measured, and counted to their user (LentTime).
// When the user has spent it, other threads do the work ahead, and the device does not wait for a
// mask: the pass misses its batch. The limits of a grammar (text/src/grammar/limits.rs) end a step
// that takes too long, with an error for the owner of the pass.
//
// The step thread and the threads that do work for it take turns under a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/brle.h"
#include "base/result.h"
#include "base/work_queue.h"
#include "host/byte_budget.h"
#include "host/lent_time.h"
#include "sched/token_rules.h"
#include "speech/grammar.h"

namespace pie::host {

class MatcherRules final : public TokenRules,
                           public TokenMasks,
                           public std::enable_shared_from_this<MatcherRules> {
 public:
  // A matcher, and its name in errors.
  struct Named {
    Matcher matcher;
    std::string name;
    std::shared_ptr<const Charge> compiled = nullptr;  // for the compiled grammar
  };
  // The user whose rules these are, and the threads that work for them.
  struct Owner {
    std::string user = {};
    WorkQueue* masks = nullptr;  // makes masks beside the device; null: the device makes them all
    WorkQueue* ahead = nullptr;  // works while the user has no time left
    std::shared_ptr<LentTime> lent = nullptr;  // null: there is no limit
    // For the growth of the texts of the matchers.
    Charge charge = {};
  };

  // Returns whether a thread for masks pays off. On a machine of two processors the device uses
  // both, and a thread that interrupts it in the middle of a batch costs more than a mask.
  static bool ThreadPays();

  // `matchers` is not empty. An empty `logit_mask` allows everything.
  MatcherRules(std::vector<Named> matchers, const Brle& logit_mask, uint32_t vocab_size,
               Owner owner);

  Result<bool> Accept(uint32_t token) override;
  std::vector<uint32_t> Forced(uint32_t most) override;
  void Prepare(std::vector<uint32_t>& draft) override;
  TokenMasks& masks() override { return *this; }
  bool is_slow() const override {
    return owner_.ahead != nullptr && owner_.lent && owner_.lent->is_spent();
  }
  Status WorkAhead(std::vector<uint32_t> chosen, std::move_only_function<void()> ready) override;
  bool WasLate() override { return late_.exchange(false); }
  Result<std::span<const uint32_t>> Bits(uint32_t index) override;

 private:
  using Tokens = std::vector<uint32_t>;

  // A token that the matchers have accepted before the scheduler asked for it, and the answer that
  // the scheduler will get. A token that was refused is the last one.
  struct Ahead {
    uint32_t token = 0;
    Result<bool> complete;
  };

  // The functions below are called under the lock.
  // Advances all matchers by the token, or none of them.
  Status AcceptAll(uint32_t token);
  void Rollback(size_t tokens);
  bool is_complete() const;
  // Advances by the token, and charges for the memory. Returns whether the text is complete.
  Result<bool> Take(uint32_t token);
  // Returns how many of the tokens fit before the text is complete. Leaves the matchers where they
  // were.
  size_t CountOpen(const Tokens& tokens);
  Tokens FindForced(uint32_t most);
  void MakeMasks();
  Result<Tokens> MakeMask(size_t behind);
  Error NothingAllowed(size_t behind) const;
  // Does the work of WorkAhead.
  void LookAhead(const Tokens& chosen);
  // Forgets the tokens that were accepted ahead.
  void TakeBackAhead();
  std::unexpected<Error> Late();

  std::timed_mutex mutex_;
  std::vector<Named> matchers_;
  Tokens static_bits_;  // the logit mask as bits; empty: every token is allowed
  Owner owner_;
  size_t first_bytes_ = 0;  // the memory of the texts at the beginning
  size_t taken_ = 0;        // tokens of the text that were accepted for the scheduler
  Tokens draft_;
  std::vector<Result<Tokens>> masks_;  // empty: they are still to be made
  uint64_t prepared_ = 0;              // the number of calls of Prepare
  std::deque<Ahead> ahead_;
  size_t chosen_ahead_ = 0;         // the first of them, which the device has chosen
  bool has_forced_ahead_ = false;   // the others are all that the matchers force
  bool has_masks_ahead_ = false;    // `masks_` are those behind them
  std::optional<Error> broken_;     // a matcher failed so that it cannot go back
  std::atomic<bool> late_ = false;  // the device did not get a mask in time
};

}  // namespace pie::host
