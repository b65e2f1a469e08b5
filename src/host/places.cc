#include "host/places.h"

namespace pie::host {

bool Places::MayEnter(const Line& line) const {
  return taken_ < limit_ && InShare(line.held + 1, limit_ - taken_, part_.share());
}

Places::Lines::iterator Places::LineOf(std::string_view user) {
  auto found = lines_.find(user);
  return found != lines_.end() ? found : lines_.emplace(std::string(user), Line{}).first;
}

void Places::Unrank(Lines::iterator line) {
  if (!line->second.waiting.empty()) {
    ranks_.erase({line->second.held, line->second.waiting.begin()->first, line});
  }
}

void Places::Rerank(Lines::iterator line) {
  if (!line->second.waiting.empty()) {
    ranks_.emplace(line->second.held, line->second.waiting.begin()->first, line);
  } else if (line->second.held == 0) {
    lines_.erase(line);
  }
}

bool Places::TryEnter(std::string_view user) {
  std::lock_guard lock(mutex_);
  const auto line = LineOf(user);
  // If launches of this user wait, no place is free for the user: every free place is offered to
  // waiting launches first.
  const bool enters = line->second.waiting.empty() && MayEnter(line->second);
  Unrank(line);
  if (enters) {
    ++line->second.held;
    ++taken_;
  }
  Rerank(line);
  return enters;
}

void Places::Enter(uint64_t id, std::string_view user, Start start) {
  std::deque<Start> admitted;
  {
    std::lock_guard lock(mutex_);
    const auto line = LineOf(user);
    Unrank(line);
    line->second.waiting.emplace(next_number_, Waiting{id, std::move(start)});
    Rerank(line);
    waits_[id] = {line, next_number_++};
    admitted = Admit();
  }
  for (Start& one : admitted) one();
}

bool Places::Abandon(uint64_t id) {
  Start dropped;  // destroyed after unlocking, because its destructor may run any code
  std::lock_guard lock(mutex_);
  const auto found = waits_.find(id);
  if (found == waits_.end()) return false;
  const auto [line, number] = found->second;
  waits_.erase(found);
  Unrank(line);
  const auto place = line->second.waiting.find(number);
  dropped = std::move(place->second.start);
  line->second.waiting.erase(place);
  Rerank(line);
  return true;
}

void Places::Leave(std::string_view user) {
  std::deque<Start> admitted;
  {
    std::lock_guard lock(mutex_);
    const auto line = LineOf(user);
    Unrank(line);
    --line->second.held;
    --taken_;
    Rerank(line);
    admitted = Admit();
  }
  for (Start& one : admitted) one();
}

std::deque<Places::Start> Places::Admit() {
  std::deque<Start> admitted;
  // If the user with the fewest places may not have another, no user may.
  while (!ranks_.empty() && MayEnter(std::get<2>(*ranks_.begin())->second)) {
    const auto line = std::get<2>(*ranks_.begin());
    Unrank(line);
    Waiting first = std::move(line->second.waiting.begin()->second);
    line->second.waiting.erase(line->second.waiting.begin());
    waits_.erase(first.id);
    admitted.push_back(std::move(first.start));
    ++line->second.held;
    ++taken_;
    Rerank(line);
  }
  return admitted;
}

size_t Places::taken() const {
  std::lock_guard lock(mutex_);
  return taken_;
}

size_t Places::waiting() const {
  std::lock_guard lock(mutex_);
  return waits_.size();
}

}  // namespace pie::host
