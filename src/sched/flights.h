// Flights: the batches of the step loop. One is being built; those that were submitted are in
// flight, the oldest first. Their buffers are reused.
//
// Owner: the step thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "sched/lane.h"
#include "sched/planner.h"

namespace pie {

// A batch with the lanes that are its members.
struct Flight {
  struct Member {
    Lane* lane = nullptr;    // null: the lane no longer needs the result
    uint32_t first_row = 0;  // of the pass
    uint32_t rows = 0;
    uint32_t unpaid_pages = 0;  // pages that it took; its account pays when the batch has run
  };
  Batch batch;
  std::vector<Member> members;
  std::vector<uint64_t> pages_made;  // the next page of each member that other passes may wait for
  Result<BatchTicket> ticket = 0;    // an error: the device refused the batch
  int64_t submitted_ns = 0;
  bool reads_much = false;  // a member is expensive to read
  // Passes that have ended, but to which the batch still points.
  std::vector<std::unique_ptr<ScheduledPass>> ended;

  bool empty() const { return members.empty(); }
  bool Makes(const PlanRequest& request) const;
  void Clear();
};

class Flights {
 public:
  explicit Flights(uint32_t most) : ring_(most + 1) {}

  Flight& next() { return At(in_flight_); }  // the one that is being built
  const Flight& next() const { return At(in_flight_); }
  Flight& newest() { return At(in_flight_ - 1); }
  Flight& oldest() { return At(0); }
  bool any_in_flight() const { return in_flight_ > 0; }
  bool has_room() const { return in_flight_ + 1 < ring_.size(); }
  uint32_t members_in_flight() const;
  // Does a batch, in flight or being built, make the page that the request waits for?
  bool Make(const PlanRequest& request) const;

  void Launch() { ++in_flight_; }  // next() is in flight from now on
  void RemoveOldest();             // when all of its members are settled

  // Makes the step loop ignore the lane's results of all batches in flight.
  void Forget(const Lane& lane);
  // Keeps a pass that has ended until no batch in flight points to it.
  void Keep(std::unique_ptr<ScheduledPass> pass);

 private:
  // Avoids a division, because every lane that boards calls it.
  size_t Index(size_t i) const {
    const size_t at = first_ + i;
    return at < ring_.size() ? at : at - ring_.size();
  }
  Flight& At(size_t i) { return ring_[Index(i)]; }
  const Flight& At(size_t i) const { return ring_[Index(i)]; }

  std::vector<Flight> ring_;
  size_t first_ = 0;
  size_t in_flight_ = 0;
};

}  // namespace pie
