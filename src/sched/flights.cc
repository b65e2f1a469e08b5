#include "sched/flights.h"

#include <algorithm>
#include <utility>

namespace pie {

bool Flight::Makes(const PlanRequest& request) const {
  return std::ranges::find(pages_made, request.next_page) != pages_made.end();
}

void Flight::Clear() {
  members.clear();
  pages_made.clear();
  reads_much = false;
  ended.clear();
  batch.tokens.clear();
  batch.positions.clear();
  batch.pages.clear();
  batch.copies.clear();
  batch.carried.clear();
  batch.members.clear();
}

uint32_t Flights::members_in_flight() const {
  size_t members = 0;
  for (size_t i = 0; i < in_flight_; ++i) members += At(i).members.size();
  return static_cast<uint32_t>(members);
}

bool Flights::Make(const PlanRequest& request) const {
  for (size_t i = 0; i <= in_flight_; ++i) {
    if (At(i).Makes(request)) return true;
  }
  return false;
}

void Flights::RemoveOldest() {
  At(0).Clear();
  first_ = Index(1);
  --in_flight_;
}

void Flights::Forget(const Lane& lane) {
  for (size_t i = 0; i < in_flight_; ++i) {
    for (Flight::Member& member : At(i).members) {
      if (member.lane == &lane) member.lane = nullptr;
    }
  }
}

void Flights::Keep(std::unique_ptr<ScheduledPass> pass) {
  if (in_flight_ > 0) newest().ended.push_back(std::move(pass));
}

}  // namespace pie
