// MatcherRules: matchers of grammars and a logit mask as the rules of a pass or a chain (TokenRules
// in sched/). The masks are made by a thread of the engine while the device runs; a device that
// needs one earlier makes it itself.
//
// The step thread and the thread that makes masks take turns under a lock.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/brle.h"
#include "base/result.h"
#include "base/work_queue.h"
#include "sched/token_rules.h"
#include "speech/grammar.h"

namespace pie::host {

class MatcherRules final : public TokenRules,
                           public TokenMasks,
                           public std::enable_shared_from_this<MatcherRules> {
 public:
  // A matcher, and how an error calls it.
  struct Named {
    Matcher matcher;
    std::string name;
  };

  // `matchers` is not empty. An empty `logit_mask` allows everything.
  MatcherRules(std::vector<Named> matchers, const Brle& logit_mask, uint32_t vocab_size,
               WorkQueue& work, std::string user);

  Result<bool> Accept(uint32_t token) override;
  std::vector<uint32_t> Forced(uint32_t most) override;
  void Prepare(std::vector<uint32_t>& draft) override;
  TokenMasks& masks() override { return *this; }
  Result<std::span<const uint32_t>> Bits(uint32_t index) override;

 private:
  using Tokens = std::vector<uint32_t>;

  // These are called under the lock. Takes the token in all matchers, or in none.
  Status AcceptAll(uint32_t token);
  void Rollback(size_t tokens);
  bool is_complete() const;
  // How many of the tokens can be taken so that the text is not complete behind them. Leaves the
  // matchers where they were.
  size_t CountOpen(const Tokens& tokens);
  void MakeMasks();
  Result<Tokens> MakeMask(size_t behind);
  Error NothingAllowed(size_t behind) const;

  std::mutex mutex_;
  std::vector<Named> matchers_;
  Tokens static_bits_;  // of the logit mask; empty = everything
  WorkQueue& work_;
  const std::string user_;  // the user to whom the work on that queue is counted
  size_t taken_ = 0;        // tokens of the text
  Tokens draft_;
  std::vector<Result<Tokens>> masks_;  // empty: they are to be made
  uint64_t prepared_ = 0;              // how often
};

}  // namespace pie::host
