// Task<T>: a coroutine that computes a T, started when it is awaited.
//
// A Task owns its coroutine: destroying one that has not ended cancels it, which drops whatever it
// waits for. Arguments taken by value live in the coroutine; those taken by reference must outlive
// it. An inferlet has one thread, so nothing here locks.
//
// Coroutines are resumed by plain calls, not by symmetric transfer, because WebAssembly has tail
// calls only as an option. If a task ends at once, its awaiter carries on without suspending, so a
// loop of `co_await`s that never wait runs in constant stack.
#pragma once

#include <coroutine>
#include <cstdlib>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace inferlet {

template <class T>
class Task;

namespace detail {

// Receives the end of a task. It may destroy the task from within the call.
class Waiter {
 public:
  virtual void TaskEnded() = 0;

 protected:
  ~Waiter() = default;
};

struct PromiseBase {
  Waiter* waiter = nullptr;

  struct TellWaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> ended) noexcept {
      if (Waiter* told = ended.promise().waiter) told->TaskEnded();
    }
    void await_resume() noexcept {}
  };

  std::suspend_always initial_suspend() noexcept { return {}; }
  TellWaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { std::abort(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;

  Task<T> get_return_object() noexcept;
  template <class U = T>
  void return_value(U&& returned) {
    value.emplace(std::forward<U>(returned));
  }
  T TakeValue() { return *std::move(value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void TakeValue() noexcept {}
};

// The value of a task. It replaces `void`, which cannot be stored.
template <class T>
using ValueOrUnit = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

}  // namespace detail

// A coroutine that computes a T. `co_await` starts it and gives its value.
template <class T>
class [[nodiscard("a Task does nothing until it is awaited")]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  // Made by the compiler when a coroutine is called.
  explicit Task(Handle coroutine) noexcept : coroutine_(coroutine) {}
  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  // Runs the task to its first wait or its end. Tells `waiter` of the end, which may come within
  // this call.
  void Start(detail::Waiter* waiter) {
    coroutine_.promise().waiter = waiter;
    coroutine_.resume();
  }
  // Whether the coroutine has ended.
  bool Ended() const noexcept { return coroutine_.done(); }

  // Returns the value of a task that has ended. Call it once.
  detail::ValueOrUnit<T> TakeValue() {
    if constexpr (std::is_void_v<T>) {
      return {};
    } else {
      return coroutine_.promise().TakeValue();
    }
  }

  // Starts the task and waits for its value.
  auto operator co_await() noexcept { return Awaiter{coroutine_}; }

 private:
  class Awaiter final : public detail::Waiter {
   public:
    explicit Awaiter(Handle task) noexcept : task_(task) {}
    bool await_ready() noexcept { return task_.done(); }
    bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
      task_.promise().waiter = this;
      task_.resume();
      if (task_.done()) return false;
      awaiting_ = awaiting;
      return true;
    }
    T await_resume() { return task_.promise().TakeValue(); }
    void TaskEnded() override {
      if (awaiting_) awaiting_.resume();
    }

   private:
    Handle task_;
    std::coroutine_handle<> awaiting_;
  };

  Handle coroutine_;
};

template <class T>
Task<T> detail::Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}

inline Task<void> detail::Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

}  // namespace inferlet
