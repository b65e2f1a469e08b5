// Cohort: which sequences are about to come back with their next pass, for the batch policy.
//
// A peer is woken when its pass ends and nothing else waits in its line. It is prompt if, the last
// time, it came back within a batch's patience. That has to be earned, so a guest that goes through
// many sequences one after the other never waits for those that it is done with. Owner: the step
// thread. Every call is O(1).
#pragma once

#include <cstdint>

namespace pie {

class Cohort {
 public:
  struct Peer {          // a lane's part of it
    uint64_t round = 0;  // in which it was woken; 0 = not woken
    int64_t ended_ns = 0;
    bool prompt = false;
  };

  // The time of what follows, and how late is still prompt.
  void SetTime(int64_t now_ns, int64_t patience_ns) {
    now_ns_ = now_ns;
    patience_ns_ = patience_ns;
  }
  // Its pass ended, and it has no other.
  void Woke(Peer& peer) {
    Gone(peer);
    peer.round = round_;
    peer.ended_ns = now_ns_;
    ++woken_;
    if (peer.prompt) ++prompt_;
  }
  // It has a pass again.
  void Back(Peer& peer) {
    if (peer.round == 0) return;
    Gone(peer);
    peer.prompt = now_ns_ - peer.ended_ns <= patience_ns_;
  }
  // It will not come back.
  void Gone(Peer& peer) {
    if (peer.round == round_) {
      --woken_;
      if (peer.prompt) --prompt_;
    }
    peer.round = 0;
  }
  // Those who have not come are not waited for any longer. A lane that was forgotten in an earlier
  // round still learns from its return whether it is prompt.
  void Forget() {
    ++round_;
    woken_ = prompt_ = 0;
  }

  // Was it woken since the last batch began?
  bool JustWoken(const Peer& peer) const { return peer.round == round_; }
  int64_t now_ns() const { return now_ns_; }

  uint32_t woken() const { return woken_; }
  uint32_t prompt() const { return prompt_; }

 private:
  uint64_t round_ = 1;
  int64_t now_ns_ = 0;
  int64_t patience_ns_ = 0;
  uint32_t woken_ = 0;
  uint32_t prompt_ = 0;
};

}  // namespace pie
