// Waiting: the one place where an inferlet gives up its thread.
//
// Everything that an inferlet waits for is a `wasi:io/poll` pollable. Coroutines that await one are
// kept in a list; when all of them wait, the reactor polls the list and resumes those whose
// pollables are ready.
#pragma once

#include <chrono>
#include <coroutine>

#include "inferlet/bindings.h"
#include "inferlet/result.h"
#include "inferlet/task.h"

namespace inferlet {

// `co_await Ready(pollable)` waits for a pollable of the bindings. Destroying the awaiting
// coroutine ends the wait and drops the pollable.
class [[nodiscard]] Ready {
 public:
  // Takes the pollable.
  explicit Ready(wasi::io::poll::Pollable pollable) : pollable_(std::move(pollable)) {}
  ~Ready();
  Ready(const Ready&) = delete;
  Ready& operator=(const Ready&) = delete;

  bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiting);
  void await_resume() noexcept {}

 private:
  friend class Reactor;
  wasi::io::poll::Pollable pollable_;
  std::coroutine_handle<> awaiting_;  // set while the reactor holds this wait
};

// Waits for `duration`.
Task<void> Sleep(std::chrono::nanoseconds duration);

namespace detail {

// Waits until at least one pollable is ready and resumes those who wait for it. False: nobody
// waits.
bool Turn();

// Waits until a future of the bindings has an answer. A future whose pollable is ready and which
// still has none never will: its source is gone.
template <class Future>
auto Answer(Future future) -> Task<decltype(future.Get())> {
  auto answer = future.Get();
  if (!answer) {
    co_await Ready(future.Pollable());
    answer = future.Get();
  }
  co_return answer;
}

}  // namespace detail

// Runs a task to its end. `Error` when it waits for nothing that could ever happen. PIE_MAIN calls
// this; inside a coroutine use co_await.
template <class T>
Result<detail::ValueOrUnit<T>> BlockOn(Task<T> task) {
  task.Start(nullptr);
  while (!task.Ended()) {
    if (!detail::Turn())
      return Error("deadlock: this inferlet waits, but for nothing that can happen");
  }
  return task.TakeValue();
}

}  // namespace inferlet
