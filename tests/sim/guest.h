// A guest in a simulated world: it does random things with its sequences, knows what each of them
// must hold, and compares every answer with a plain recomputation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "base/clock.h"
#include "base/result.h"
#include "device.h"
#include "sched/queue.h"
#include "sched/scheduler.h"

namespace pie::sim {

struct GuestOptions {
  AccountId account;
  CacheSalt salt;
  uint32_t actions = 0;
  uint32_t longest = 0;  // sequence, in tokens
  bool faults = false;   // passes may fail
};

class Guest {
 public:
  Guest(const GuestOptions& options, const DummyOptions& device, CommandQueue& queue,
        const Clock& clock, Dice& dice, uint64_t& next_sequence)
      : options_(options),
        device_(device),
        queue_(queue),
        clock_(clock),
        dice_(dice),
        next_sequence_(next_sequence),
        actions_left_(options.actions) {}

  // Does something, if it is not thinking or waiting.
  Status Act();
  bool over() const { return over_; }
  Status problem() const;
  // Of what it asked for and has not got, the oldest.
  std::optional<int64_t> waits_since_ns() const;
  // When it will do something by itself.
  std::optional<int64_t> wakes_at_ns() const;
  // After the end: nothing that was asked for was forgotten.
  Status CheckEnded() const;

  uint64_t answers() const { return answers_; }
  uint64_t failures() const { return failures_; }
  int64_t longest_wait_ns() const { return longest_wait_ns_; }

 private:
  using Slots = std::vector<DummySlot>;
  struct Held {
    SequenceId id;
    Slots slots;
  };
  // A pass that was asked for, as its callbacks see it.
  struct Asked {
    SequenceId sequence;
    int64_t asked_ns = 0;
    uint32_t expected = 0;
    bool dropped = false;  // its sequence was
    bool chained = false;
    uint32_t calls = 0;
    bool destroyed = false;
    std::optional<Result<std::vector<Slot>>> result;
    Slots slots;                    // a chain's
    std::optional<uint32_t> unfed;  // its last token
    std::string problem;
  };

  uint32_t Greedy(const Slots& attended) const;
  Held& Pick() { return held_[dice_.Below(static_cast<uint32_t>(held_.size()))]; }
  void Collect();
  void Create();
  void Drop(size_t index);
  void Append(Held& held);
  void AppendChain(Held& held);
  void Push(const std::shared_ptr<Asked>& asked, Forward forward);
  Forward NewForward(Held& held, uint32_t count);
  void Truncate(Held& held, uint32_t keep);

  const GuestOptions options_;
  const DummyOptions device_;
  CommandQueue& queue_;
  const Clock& clock_;
  Dice& dice_;
  uint64_t& next_sequence_;
  uint32_t actions_left_;
  std::vector<Held> held_;
  std::vector<std::shared_ptr<Asked>> asked_;
  bool waits_for_all_ = false;
  int64_t thinks_until_ns_ = 0;
  bool over_ = false;
  std::string problem_;
  uint64_t answers_ = 0;
  uint64_t failures_ = 0;
  int64_t longest_wait_ns_ = 0;
};

}  // namespace pie::sim
