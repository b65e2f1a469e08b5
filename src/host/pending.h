// Pending: the result of a call whose work another thread does. The guest that called waits for the
// signal; the thread that it ran on goes on with inference and with other guests.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/work_queue.h"
#include "wasm/signal.h"

namespace pie::host {

// What the tables of handles know of a Pending.
struct Waitable {
  virtual ~Waitable() = default;
  bool ready() const { return ready_.load(std::memory_order_acquire); }

  wasm::Signal signal;  // fires when the result is there

 protected:
  std::atomic<bool> ready_ = false;
};

template <class T>
class Pending final : public Waitable {
 public:
  // Once, on any thread.
  void Set(Result<T> result) {
    result_ = std::move(result);
    ready_.store(true, std::memory_order_release);
    signal.Fire();
  }
  // Once it is ready, and once.
  Result<T> Take() { return std::move(result_); }

 private:
  Result<T> result_ = Fail(Code::kInternal, "the result is not there yet");
};

// Promise: the side that sets the result of a Pending. A Promise that is destroyed before sets an
// error, so that no guest waits for ever.
template <class T>
class Promise {
 public:
  explicit Promise(std::shared_ptr<Pending<T>> pending) : pending_(std::move(pending)) {}
  Promise(Promise&&) noexcept = default;
  Promise& operator=(Promise&&) = delete;
  ~Promise() {
    if (pending_) Set(Fail(Code::kCancelled, "the engine stops: this call was not served"));
  }
  void Set(Result<T> result) { std::exchange(pending_, nullptr)->Set(std::move(result)); }

 private:
  std::shared_ptr<Pending<T>> pending_;
};

// Runs `work` of a user, which returns a Result<T>, on the queue's threads. Fails if the queue is
// full; `what` is the plural of what waits there.
template <class T, class Work>
Result<std::shared_ptr<Pending<T>>> RunLater(WorkQueue& queue, std::string_view user,
                                             std::string_view what, Work work) {
  auto pending = std::make_shared<Pending<T>>();
  const bool queued =
      queue.Push(user, [promise = Promise<T>(pending), work = std::move(work)]() mutable {
        try {
          promise.Set(work());
        } catch (const std::exception& error) {
          promise.Set(Fail(Code::kInternal, "{}", error.what()));
        }
      });
  if (queued) return pending;
  return Fail(Code::kExhausted, "{} {} wait already; try again later", queue.size(), what);
}

}  // namespace pie::host
