#include "inferlet/reactor.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

namespace inferlet {

// All waits of the inferlet. There is one thread and one run of `Main`, so there is one reactor.
class Reactor {
 public:
  void Add(Ready* wait) { waiting_.push_back(wait); }

  void Remove(Ready* wait) {
    std::erase(waiting_, wait);
    std::erase(due_, wait);
  }

  bool Turn() {
    if (waiting_.empty()) return false;
    std::vector<bool> ready = Poll();
    std::vector<Ready*> still_waiting;
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (ready[i]) {
        due_.push_back(waiting_[i]);
      } else {
        still_waiting.push_back(waiting_[i]);
      }
    }
    waiting_ = std::move(still_waiting);
    // Resuming one may cancel another that is due: it then removes itself from the queue.
    while (!due_.empty()) {
      Ready* wait = due_.front();
      due_.pop_front();
      std::exchange(wait->awaiting_, {}).resume();
    }
    return true;
  }

 private:
  std::vector<bool> Poll() const {
    std::vector<bool> ready(waiting_.size());
    if (waiting_.size() == 1) {
      waiting_.front()->pollable_.Block();
      ready[0] = true;
      return ready;
    }
    std::vector<std::reference_wrapper<const wasi::io::poll::Pollable>> pollables;
    pollables.reserve(waiting_.size());
    for (const Ready* wait : waiting_) pollables.push_back(wait->pollable_);
    const auto indices = wasi::io::poll::Poll(pollables);
    for (uint32_t index : indices.get_view()) ready[index] = true;
    return ready;
  }

  std::vector<Ready*> waiting_;
  std::deque<Ready*> due_;
};

namespace {

Reactor& TheReactor() {
  static Reactor reactor;
  return reactor;
}

}  // namespace

Ready::~Ready() {
  if (awaiting_) TheReactor().Remove(this);
}

void Ready::await_suspend(std::coroutine_handle<> awaiting) {
  awaiting_ = awaiting;
  TheReactor().Add(this);
}

Task<void> Sleep(std::chrono::nanoseconds duration) {
  const auto wait = duration.count() > 0 ? static_cast<uint64_t>(duration.count()) : 0;
  co_await Ready(wasi::clocks::monotonic_clock::SubscribeDuration(wait));
}

bool detail::Turn() {
  return TheReactor().Turn();
}

}  // namespace inferlet
