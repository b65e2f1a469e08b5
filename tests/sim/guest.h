// A guest in a simulated world. It does random things with its sequences, knows the expected
// content of each, and compares every answer with a plain recomputation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "base/clock.h"
#include "base/result.h"
#include "device.h"
#include "oracle.h"
#include "sched/queue.h"
#include "sched/scheduler.h"
#include "speculation.h"
#include "store.h"

namespace pie::sim {

// Shared by all guests of a world.
struct Surroundings {
  Device& device;
  CommandQueue& queue;
  const Clock& clock;
  Dice& dice;
  Store& store;
  Oracle& oracle;
  uint64_t& next_sequence;
  uint64_t& next_pass;
};

struct GuestOptions {
  uint32_t user = 0;
  AccountId account;
  CacheSalt salt;
  uint32_t actions = 0;
  uint32_t longest = 0;  // sequence, in tokens
  bool faults = false;   // passes may fail
  bool suspends = true;  // suspends its sequences now and then
};

class Guest {
 public:
  Guest(const GuestOptions& options, const Surroundings& around)
      : options_(options),
        device_(around.device),
        queue_(around.queue),
        clock_(around.clock),
        dice_(around.dice),
        store_(around.store),
        oracle_(around.oracle),
        next_sequence_(around.next_sequence),
        next_pass_(around.next_pass),
        actions_left_(options.actions) {}

  // Takes the next random action, if the guest is not thinking or waiting.
  Status Act();
  bool over() const { return over_; }
  Status problem() const;
  // The time at which it asked for the oldest answer that has not arrived.
  std::optional<int64_t> waits_since_ns() const;
  // When it will act by itself.
  std::optional<int64_t> wakes_at_ns() const;
  // Checks, after the end, that every request was answered.
  Status CheckEnded() const;

  uint64_t answers() const { return answers_; }
  uint64_t failures() const { return failures_; }
  int64_t longest_wait_ns() const { return longest_wait_ns_; }

 private:
  struct Held {
    SequenceId id;
    Slots slots;
  };
  // A sequence that is fed under adapters.
  struct Adapted {
    SequenceId id;
    std::vector<AdaptedSlot> slots;
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
    std::optional<Rules> rules;     // those that hold it, as they are after its tokens
    std::string problem;
  };

  // A sequence on its way to the store.
  struct Saving {
    std::string name;
    Slots slots;
    Store::SlotAdapters adapters;
    SequenceId copy;
    uint32_t chunk = 1;  // pages that are read at a time
    uint32_t next_page = 0;
    bool killed = false;  // before its end
    int64_t asked_ns = 0;
    KvContent content;             // what was read so far
    std::vector<std::byte> bytes;  // of the pages so far
    bool destroyed = false;
    std::optional<Result<KvContent>> arrived;
    std::string problem;
  };
  // Knows when a callback is gone.
  template <class T>
  struct Watch {
    explicit Watch(std::shared_ptr<T> a) : asked(std::move(a)) {}
    Watch(Watch&&) = default;
    ~Watch() {
      if (asked) asked->destroyed = true;
    }
    std::shared_ptr<T> asked;
  };

  uint32_t Greedy(const Slots& attended) const;
  BidPlan RandomBids();
  Held& Pick() { return held_[dice_.Below(static_cast<uint32_t>(held_.size()))]; }
  void Collect();
  Status Begin(uint32_t action);
  void Fork(const Held& parent);
  std::string RandomName();
  void Save(SequenceId id, std::string name, Slots slots, Store::SlotAdapters adapters);
  void ReadMore(const std::shared_ptr<Saving>& saving);
  Status CollectSaves();
  Result<bool> TakePages(const std::shared_ptr<Saving>& saving);
  Status Open(bool take);
  void Create();
  void Drop(size_t index);
  void Append(Held& held);
  void AppendChain(Held& held);
  uint32_t ExpectedOf(const Asked& chain) const;
  Status Adapt();
  std::string RandomAdaptedName();
  void SaveAdapted(const Adapted& held);
  Status OpenAdapted(bool take);
  void DropAdapted(SequenceId id);
  void Push(const std::shared_ptr<Asked>& asked, Forward forward);
  Forward NewForward(Held& held, uint32_t count);
  void Truncate(Held& held, uint32_t keep);

  const GuestOptions options_;
  Device& device_;
  CommandQueue& queue_;
  const Clock& clock_;
  Dice& dice_;
  Store& store_;
  Oracle& oracle_;
  uint64_t& next_sequence_;
  uint64_t& next_pass_;
  uint32_t actions_left_;
  std::vector<Held> held_;
  std::vector<Adapted> adapted_;
  std::vector<std::shared_ptr<Asked>> asked_;
  std::vector<std::shared_ptr<Saving>> saves_;
  bool waits_for_all_ = false;
  int64_t thinks_until_ns_ = 0;
  bool over_ = false;
  std::string problem_;
  uint64_t answers_ = 0;
  uint64_t failures_ = 0;
  int64_t longest_wait_ns_ = 0;
};

}  // namespace pie::sim
