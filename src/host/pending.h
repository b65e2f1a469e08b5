// Pending: the result of a call whose work another thread does. The calling guest waits for the
// signal, while the thread that it ran on goes on with inference and with other guests.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "base/work_queue.h"
#include "wasm/signal.h"

namespace pie::host {

// Whether a call may compile a component, which takes up to minutes.
enum class Compiling { kRefused, kAllowed };

// The part of a Pending that the tables of handles know.
struct Waitable {
  virtual ~Waitable() = default;
  bool ready() const { return ready_.load(std::memory_order_acquire); }

  wasm::Signal signal;  // fires when the result is there
  // Lives until the result is taken; it may be a charge. Set before the result.
  std::shared_ptr<const void> held;

 protected:
  std::atomic<bool> ready_ = false;
};

template <class T>
class Pending final : public Waitable {
 public:
  // Called once, by any thread.
  void Set(Result<T> result) {
    result_ = std::move(result);
    ready_.store(true, std::memory_order_release);
    signal.Fire();
  }
  // Called once, when the result is ready.
  Result<T> Take() { return std::move(result_); }

 private:
  Result<T> result_ = Fail(Code::kInternal, "the result is not there yet");
};

// Promise: the side that sets the result of a Pending. A Promise that is destroyed before it has
// set a result sets an error, so that no guest waits for ever.
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
  // Whether no guest waits for the result any more. Work that takes long asks now and then, and
  // stops.
  bool abandoned() const { return pending_.use_count() == 1; }

 private:
  std::shared_ptr<Pending<T>> pending_;
};

// Runs a user's `work`, which returns a Result<T>, on the queue's threads. Work that takes long has
// a parameter: the Promise, which knows whether a guest still waits. Fails if the queue is full;
// the error calls the waiting jobs `what`, a plural noun.
template <class T, class Work>
Result<std::shared_ptr<Pending<T>>> RunLater(WorkQueue& queue, std::string_view user,
                                             std::string_view what, Work work) {
  auto pending = std::make_shared<Pending<T>>();
  const bool queued =
      queue.Push(user, [promise = Promise<T>(pending), work = std::move(work)]() mutable {
        try {
          if constexpr (std::is_invocable_v<Work&, const Promise<T>&>) {
            promise.Set(work(std::as_const(promise)));
          } else {
            promise.Set(work());
          }
        } catch (const std::exception& error) {
          promise.Set(Fail(Code::kInternal, "{}", error.what()));
        }
      });
  if (queued) return pending;
  return Fail(Code::kExhausted, "{} {} wait already; try again later", queue.size(), what);
}

// Runs work that may need a compiler. `work(kRefused)` returns null if it needs one. A thread of
// `compilers` then calls `work(kAllowed)`.
template <class T, class Work>
Result<std::shared_ptr<Pending<T>>> RunLater(WorkQueue& queue, WorkQueue& compilers,
                                             std::string_view user, std::string_view what,
                                             Work work) {
  auto pending = std::make_shared<Pending<T>>();
  auto call = [promise = Promise<T>(pending), work = std::move(work)](Compiling compiling) mutable {
    try {
      Result<T> result = work(compiling);
      if (result && !*result) return false;
      promise.Set(std::move(result));
    } catch (const std::exception& error) {
      promise.Set(Fail(Code::kInternal, "{}", error.what()));
    }
    return true;
  };
  const bool queued =
      queue.Push(user, [call = std::move(call), user = std::string(user), &compilers]() mutable {
        if (call(Compiling::kRefused)) return;
        compilers.Push(
            user, [call = std::move(call)]() mutable { std::ignore = call(Compiling::kAllowed); });
      });
  if (queued) return pending;
  return Fail(Code::kExhausted, "{} {} wait already; try again later", queue.size(), what);
}

}  // namespace pie::host
