// Runs several tasks at once: waits for all of them, for the first of them, or for one against the
// clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "inferlet/reactor.h"
#include "inferlet/result.h"
#include "inferlet/task.h"

namespace inferlet {
namespace detail {

// Starts a number of tasks, and waits until enough of them have ended.
class Join final : public Waiter {
 public:
  explicit Join(size_t wanted) : missing_(wanted) {}

  // `start` starts the tasks, each with this as its waiter.
  template <class Start>
  auto Of(Start start) {
    struct Awaiter {
      Join& join;
      Start start;
      bool await_ready() noexcept { return false; }
      bool await_suspend(std::coroutine_handle<> awaiting) {
        start();
        if (join.missing_ == 0) return false;
        join.awaiting_ = awaiting;
        return true;
      }
      void await_resume() noexcept {}
    };
    return Awaiter{*this, std::move(start)};
  }

  bool Satisfied() const { return missing_ == 0; }

  void TaskEnded() override {
    if (missing_ > 0 && --missing_ == 0 && awaiting_) awaiting_.resume();
  }

 private:
  size_t missing_;
  std::coroutine_handle<> awaiting_;
};

template <size_t I = 0, class Variant, class... T>
std::optional<Variant> FirstEnded(std::tuple<Task<T>...>& tasks) {
  if constexpr (I == sizeof...(T)) {
    return std::nullopt;
  } else {
    auto& task = std::get<I>(tasks);
    if (task.Ended()) return Variant(std::in_place_index<I>, task.TakeValue());
    return FirstEnded<I + 1, Variant>(tasks);
  }
}

}  // namespace detail

// Runs all tasks at once, and returns their values in order.
template <class T>
Task<std::vector<detail::ValueOrUnit<T>>> WhenAll(std::vector<Task<T>> tasks) {
  detail::Join join(tasks.size());
  co_await join.Of([&] {
    for (Task<T>& task : tasks) task.Start(&join);
  });
  std::vector<detail::ValueOrUnit<T>> values;
  values.reserve(tasks.size());
  for (Task<T>& task : tasks) values.push_back(task.TakeValue());
  co_return values;
}

template <class... T>
Task<std::tuple<detail::ValueOrUnit<T>...>> WhenAll(Task<T>... task) {
  std::tuple<Task<T>...> tasks(std::move(task)...);
  detail::Join join(sizeof...(T));
  co_await join.Of([&] { std::apply([&](auto&... each) { (each.Start(&join), ...); }, tasks); });
  co_return std::apply(
      [](auto&... each) { return std::tuple<detail::ValueOrUnit<T>...>(each.TakeValue()...); },
      tasks);
}

// Runs all tasks at once until the first has ended, and cancels the others. Returns the index and
// the value of the first. The list must not be empty.
template <class T>
Task<std::pair<size_t, detail::ValueOrUnit<T>>> WhenAny(std::vector<Task<T>> tasks) {
  detail::Join first(1);
  co_await first.Of([&] {
    for (Task<T>& task : tasks) {
      task.Start(&first);
      if (first.Satisfied()) break;
    }
  });
  for (size_t i = 0;; ++i) {
    if (tasks[i].Ended()) co_return std::pair(i, tasks[i].TakeValue());
  }
}

// Does the same for tasks of different types. Returns a variant whose index() tells which task was
// first.
template <class... T>
Task<std::variant<detail::ValueOrUnit<T>...>> Select(Task<T>... task) {
  std::tuple<Task<T>...> tasks(std::move(task)...);
  detail::Join first(1);
  co_await first.Of([&] {
    auto start = [&](auto& each) {
      if (!first.Satisfied()) each.Start(&first);
    };
    std::apply([&](auto&... each) { (start(each), ...); }, tasks);
  });
  using Values = std::variant<detail::ValueOrUnit<T>...>;
  co_return *detail::FirstEnded<0, Values>(tasks);
}

// Returns the task's value. If `limit` passes first, cancels the task and returns none.
template <class T>
Task<std::optional<detail::ValueOrUnit<T>>> Timeout(Task<T> task, std::chrono::nanoseconds limit) {
  auto first = co_await Select(std::move(task), Sleep(limit));
  if (first.index() == 1) co_return std::nullopt;
  co_return std::get<0>(std::move(first));
}

// Turns many results into one: all values, or the first error.
template <class T>
Result<std::vector<T>> Collect(std::vector<Result<T>> results) {
  std::vector<T> values;
  values.reserve(results.size());
  for (Result<T>& result : results) values.push_back(PIE_TRY_SYNC(std::move(result)));
  return values;
}

}  // namespace inferlet
