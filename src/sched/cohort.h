// Cohort: which sequences are about to come back with their next pass, for the batch policy.
//
// A peer is woken when its pass ends and no other operation waits in its line. A peer is prompt if
// it came back within a batch's patience the last time. A new peer is not prompt yet. So batches
// never wait for the sequences that a guest has finished with.
//
// Owner: the step thread. Every call is O(1).
#pragma once

#include <cstdint>

#include "sched/policy.h"
#include "sched/step_time.h"

namespace pie {

class Cohort {
 public:
  struct Peer {          // a lane's part of it
    uint64_t round = 0;  // the round in which it was woken; 0 = it was not
    int64_t ended_ns = 0;
    bool prompt = false;
  };

  explicit Cohort(const StepTime& time) : time_(time) {}

  // The peer's pass ended, and it has no other.
  void Woke(Peer& peer) {
    Gone(peer);
    peer.round = round_;
    peer.ended_ns = time_.now_ns;
    ++woken_;
    if (peer.prompt) ++prompt_;
  }
  // The peer has a pass again.
  void Back(Peer& peer) {
    if (peer.round == 0) return;
    Gone(peer);
    peer.prompt = time_.now_ns - peer.ended_ns <= PatienceNs(time_.last_latency_ns);
  }
  // The peer will not come back.
  void Gone(Peer& peer) {
    if (peer.round == round_) {
      --woken_;
      if (peer.prompt) --prompt_;
    }
    peer.round = 0;
  }
  // Begins a round, in which no peer has been woken yet. A peer of an earlier round still learns
  // from its return whether it is prompt.
  void BeginRound() {
    ++round_;
    woken_ = prompt_ = 0;
  }

  // Was the peer woken in this round?
  bool JustWoken(const Peer& peer) const { return peer.round == round_; }

  uint32_t woken() const { return woken_; }
  uint32_t prompt() const { return prompt_; }

 private:
  const StepTime& time_;
  uint64_t round_ = 1;
  uint32_t woken_ = 0;
  uint32_t prompt_ = 0;
};

}  // namespace pie
