// MatcherRules: the rules of a pass or a chain (TokenRules in sched/), made of matchers of grammars
// and a logit mask. A thread of the engine makes the masks while the device runs, if there is such
// a thread. A device that needs a mask earlier makes it itself.
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
  // A matcher, and its name in errors.
  struct Named {
    Matcher matcher;
    std::string name;
  };

  // Returns whether a thread for masks pays off. On a machine of two processors the device uses
  // both, and a thread that interrupts it in the middle of a batch costs more than a mask.
  static bool ThreadPays();

  // `matchers` is not empty. An empty `logit_mask` allows everything. Without `work`, the device
  // makes all masks.
  MatcherRules(std::vector<Named> matchers, const Brle& logit_mask, uint32_t vocab_size,
               WorkQueue* work, std::string user);

  Result<bool> Accept(uint32_t token) override;
  std::vector<uint32_t> Forced(uint32_t most) override;
  void Prepare(std::vector<uint32_t>& draft) override;
  TokenMasks& masks() override { return *this; }
  Result<std::span<const uint32_t>> Bits(uint32_t index) override;

 private:
  using Tokens = std::vector<uint32_t>;

  // The functions below are called under the lock.
  // Advances all matchers by the token, or none of them.
  Status AcceptAll(uint32_t token);
  void Rollback(size_t tokens);
  bool is_complete() const;
  // Returns how many of the tokens fit before the text is complete. Leaves the matchers where they
  // were.
  size_t CountOpen(const Tokens& tokens);
  void MakeMasks();
  Result<Tokens> MakeMask(size_t behind);
  Error NothingAllowed(size_t behind) const;

  std::mutex mutex_;
  std::vector<Named> matchers_;
  Tokens static_bits_;  // the logit mask as bits; empty: every token is allowed
  WorkQueue* const work_;
  const std::string user_;  // the user to whom the work on that queue is counted
  size_t taken_ = 0;        // tokens of the text that the matchers have accepted
  Tokens draft_;
  std::vector<Result<Tokens>> masks_;  // empty: they are still to be made
  uint64_t prepared_ = 0;              // the number of calls of Prepare
};

}  // namespace pie::host
