// Waiting: the one place where an inferlet gives up its thread.
//
// Everything that an inferlet waits for is a `wasi:io/poll` pollable. The reactor keeps a list of
// the coroutines that wait. When all of them wait, it polls the list and resumes the coroutines
// whose pollables are ready.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstdlib>
#include <expected>
#include <optional>

#include "inferlet/bindings.h"
#include "inferlet/result.h"
#include "inferlet/task.h"

namespace inferlet {

// `co_await Ready(pollable)` waits for a pollable of the bindings. Destroying the awaiting
// coroutine ends the wait and drops the pollable.
class [[nodiscard]] Ready {
 public:
  // Takes over the pollable.
  explicit Ready(wasi::io::poll::Pollable pollable) : pollable_(std::move(pollable)) {}
  // Ends the wait and drops the pollable.
  virtual ~Ready();
  Ready(const Ready&) = delete;
  Ready& operator=(const Ready&) = delete;

  bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiting);
  void await_resume() noexcept {}

 protected:
  Ready() = default;
  // Leaves the reactor and drops the pollable. A pollable must be dropped before the resource that
  // it came from.
  void EndWait();

 private:
  friend class Reactor;
  // Returns the pollable. Makes it if there is none yet.
  const wasi::io::poll::Pollable& ToPoll();
  // Makes the pollable of a wait for a pass. It is needed only if the inferlet also waits for
  // something else.
  virtual wasi::io::poll::Pollable MakePollable() { std::abort(); }
  // Blocks the inferlet until this wait is over.
  virtual void Block() { pollable_->Block(); }

  std::optional<wasi::io::poll::Pollable> pollable_;
  std::coroutine_handle<> awaiting_;  // set while the reactor holds this wait
};

// Waits for `duration`.
Task<void> Sleep(std::chrono::nanoseconds duration);

namespace detail {

// `co_await Finished(future)` waits for a pass and returns its output. If the inferlet waits for
// nothing else, the wait is one host call.
class [[nodiscard]] Finished : public Ready {
 public:
  using Given = pie::plus::steps::Given;

  // Takes over the future.
  explicit Finished(raw::FutureOutput future) : future_(std::move(future)) {}
  ~Finished() override { EndWait(); }
  std::expected<Given, wit::string> await_resume();

 private:
  wasi::io::poll::Pollable MakePollable() override { return future_.Pollable(); }
  void Block() override;

  raw::FutureOutput future_;
  std::optional<std::expected<Given, wit::string>> given_;
};

// Waits until at least one pollable is ready, and resumes the coroutines that wait for it. Returns
// false if no coroutine waits.
bool Turn();

// Waits until a future of the bindings has an answer. If its pollable is ready and there is still
// no answer, its source is gone, and there will never be one.
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

// Runs a task to its end. Fails if the task waits and nothing can end the wait. PIE_MAIN calls this
// function; inside a coroutine use co_await.
template <class T>
Result<detail::ValueOrUnit<T>> BlockOn(Task<T> task) {
  task.Start(nullptr);
  while (!task.Ended()) {
    if (!detail::Turn())
      return Error("deadlock: every task of this inferlet waits for another one");
  }
  return task.TakeValue();
}

}  // namespace inferlet
