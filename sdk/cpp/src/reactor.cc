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
      waiting_.front()->Block();
      ready[0] = true;
      return ready;
    }
    std::vector<std::reference_wrapper<const wasi::io::poll::Pollable>> pollables;
    pollables.reserve(waiting_.size());
    for (Ready* wait : waiting_) pollables.push_back(wait->ToPoll());
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
  EndWait();
}

void Ready::EndWait() {
  if (std::exchange(awaiting_, {})) TheReactor().Remove(this);
  pollable_.reset();
}

const wasi::io::poll::Pollable& Ready::ToPoll() {
  if (!pollable_) pollable_.emplace(MakePollable());
  return *pollable_;
}

void detail::Finished::Block() {
  given_.emplace(pie::plus::steps::Finish(std::move(future_)));
}

std::expected<detail::Finished::Given, wit::string> detail::Finished::await_resume() {
  EndWait();
  if (!given_) Block();  // The pass has run, so this does not wait.
  return *std::move(given_);
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
