// Loop: the thread on which the blocking client runs the coroutines of async.h.
#pragma once

#include <future>
#include <memory>
#include <thread>
#include <type_traits>

#include "asio.h"

namespace pie_client {

class Loop {
 public:
  Loop() : thread_([this] { io_.run(); }) {}
  ~Loop() {
    io_.stop();
    thread_.join();
  }

  // Runs a coroutine and returns its result, or throws. Any thread but the loop's own may call it.
  template <class T>
  T Run(asio::awaitable<T> steps) {
    const auto promise = std::make_shared<std::promise<T>>();
    asio::co_spawn(io_, Fulfil(std::move(steps), promise), asio::detached);
    return promise->get_future().get();
  }

 private:
  template <class T>
  static asio::awaitable<void> Fulfil(asio::awaitable<T> steps,
                                      std::shared_ptr<std::promise<T>> promise) {
    try {
      if constexpr (std::is_void_v<T>) {
        co_await std::move(steps);
        promise->set_value();
      } else {
        promise->set_value(co_await std::move(steps));
      }
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::thread thread_;
};

}  // namespace pie_client
