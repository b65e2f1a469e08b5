// ChainOutput: the tokens of a chain on their way from the step thread to its guest.
//
// The step thread gives, the guest takes; a lock is held for a few instructions by either. The
// guest is woken in chunks: by the first token at once, then when kWakeTokens have gathered or
// kWakeNs have passed since it was last woken, and by the end. So a text still runs, and a step
// costs no wake-up: where sixteen sequences share two cores with the device, being woken every 30
// ms costs them a percent.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "host/byte_budget.h"
#include "sched/chain.h"
#include "wasm/signal.h"

namespace pie::host {

class ChainOutput {
 public:
  static constexpr uint32_t kWakeTokens = 32;
  static constexpr int64_t kWakeNs = 250'000'000;

  struct Taken {
    std::vector<uint32_t> tokens;
    bool ended = false;             // nothing follows
    std::optional<Chain::End> end;  // of a chain that ended: none if it was cancelled
  };

  // `charge` is for what may gather here.
  ChainOutput(Charge charge, const Clock& clock) : charge_(std::move(charge)), clock_(clock) {}

  // Step thread. After the end, nothing is heard.
  void Give(uint32_t token, std::optional<Chain::End> end);
  void Finish(Status status);

  // Guest. What has gathered, and the end when that was all; an error when it ended by one.
  Result<Taken> Take();
  // Nobody wants the rest: it has ended, and what was not taken is gone.
  void Cancel();

  wasm::Signal& signal() { return signal_; }
  bool woken() {
    const std::lock_guard lock(mutex_);
    return woken_;
  }

 private:
  void Wake();  // under the lock

  wasm::Signal signal_;
  Charge charge_;
  const Clock& clock_;
  std::mutex mutex_;
  std::vector<uint32_t> tokens_;  // given, not taken
  bool woken_ = false;            // the signal is fired
  bool any_ = false;              // was ever woken
  int64_t woken_ns_ = 0;          // when it last was
  bool ended_ = false;
  std::optional<Chain::End> end_;
  Status status_;
};

}  // namespace pie::host
