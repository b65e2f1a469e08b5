// DraftPace: decides how many tokens to draft. It learns which share of the guesses was right. A
// token is drafted if it is likely enough to be right to pay for its row. Owner: the step thread.
#pragma once

#include <cstdint>

#include "sched/step_time.h"

namespace pie {

class DraftPace {
 public:
  // `right` is the expected share of right guesses, used until there are verdicts.
  DraftPace(const StepTime& time, double right) : time_(time), right_(right) {}

  // The device verified `drafted` tokens and chose the first `chosen` of them itself. Each of these
  // is a right guess, and the draft after them, if there is one, is a wrong guess.
  void Judge(uint32_t drafted, uint32_t chosen) {
    if (drafted == 0) return;
    for (uint32_t i = 0; i < chosen; ++i) right_ += kNew * (1 - right_);
    if (chosen < drafted) right_ += kNew * (0 - right_);
  }
  // Returns the number of tokens to draft, at most `most`, if a guess costs only its row.
  uint32_t Length(uint32_t most) const {
    uint32_t length = 0;
    double likely = right_;
    while (length < most && likely > time_.row_price) {
      ++length;
      likely *= right_;
    }
    return length;
  }
  // Returns the number of guesses, at most `most`, that gives the most tokens in a given time. Each
  // guess costs its row and `cost`, a share of a pass, because the pass waits for it.
  uint32_t Best(uint32_t most, double cost) const {
    uint32_t best = 0;
    double rate = 1, likely = 1, tokens = 1, passes = 1;
    for (uint32_t length = 1; length <= most; ++length) {
      likely *= right_;
      tokens += likely;
      passes += time_.row_price + cost;
      if (tokens / passes <= rate) continue;
      rate = tokens / passes;
      best = length;
    }
    return best;
  }
  // Called when drafts do not pay. Returns whether to make one anyway, to learn whether that has
  // changed.
  bool Probe() { return ++skipped_ % kProbePasses == 0; }

 private:
  static constexpr uint32_t kProbePasses = 32;  // between two guesses where guesses do not pay
  static constexpr double kNew = 0.25;          // the weight of the newest verdict

  const StepTime& time_;
  double right_;          // the share of guesses that were right
  uint32_t skipped_ = 0;  // passes without a guess since the last one
};

}  // namespace pie
