// ChainOutput: the tokens of a chain on their way from the step thread to its guest.
//
// The step thread gives tokens and the guest takes them. Both hold a lock for a few instructions
// only. The guest is woken by the first token, then whenever kWakeTokens tokens have gathered or
// kWakeNs have passed since the last wake-up, and by the end of the chain. That is often enough for
// a person who reads the text as it appears, and most steps wake no guest. Waking sixteen guests
// every 30 ms on a machine of two cores was measured to cost one percent of the device's time.
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
    bool ended = false;             // no further token follows
    std::optional<Chain::End> end;  // why the chain ended; none if it was cancelled
  };

  // `charge` pays for tokens that were not taken yet: the sequence keeps a row of `row_bytes` for
  // each of them.
  ChainOutput(Charge charge, size_t row_bytes, const Clock& clock)
      : charge_(std::move(charge)), rows_(charge_.Same()), row_bytes_(row_bytes), clock_(clock) {}

  // The step thread calls it. Charges for the rows of that many more tokens.
  Status Admit(uint32_t tokens);
  // Called by the step thread. Calls after the end have no effect.
  void Give(uint32_t token, std::optional<Chain::End> end);
  void Finish(Status status);

  // Called by the guest. Returns the tokens that have gathered, and the end of the chain if no
  // token follows them. If the chain failed, returns its error after all tokens were taken.
  Result<Taken> Take();
  // Ends the chain and discards the tokens that were not taken.
  void Cancel();

  wasm::Signal& signal() { return signal_; }
  bool woken() {
    const std::lock_guard lock(mutex_);
    return woken_;
  }

 private:
  void Wake();  // called with the lock held

  wasm::Signal signal_;
  Charge charge_, rows_;
  const size_t row_bytes_;
  const Clock& clock_;
  std::mutex mutex_;
  std::vector<uint32_t> tokens_;  // given and not taken yet
  bool woken_ = false;            // the signal is fired
  bool any_ = false;              // the guest has been woken at least once
  int64_t woken_ns_ = 0;          // the time of the last wake-up
  bool ended_ = false;
  std::optional<Chain::End> end_;
  Status status_;
};

}  // namespace pie::host
