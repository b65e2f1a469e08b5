// Bell: coroutines wait at it until it is rung. All of them run on one strand, so nothing can
// happen between checking the condition and waiting.
#pragma once

#include <algorithm>
#include <chrono>
#include <list>
#include <optional>

#include "asio.h"

namespace pie_client {

using Limit = std::optional<std::chrono::milliseconds>;

class Bell {
 public:
  void Ring() {
    for (asio::steady_timer* waiting : waiting_) waiting->cancel();
  }

  // Waits until `ready` returns true or the time is over. `ready` is called whenever the bell
  // rings. Returns false if the time is over.
  template <class Ready>
  asio::awaitable<bool> Wait(Limit limit, Ready ready) {
    if (ready()) co_return true;
    constexpr std::chrono::milliseconds kLongest = std::chrono::years(1);
    const auto until =
        std::chrono::steady_clock::now() + std::min(limit.value_or(kLongest), kLongest);
    asio::steady_timer timer(co_await asio::this_coro::executor);
    const Place place(waiting_, timer);
    while (!ready()) {
      if (std::chrono::steady_clock::now() >= until) co_return false;
      timer.expires_at(until);
      boost::system::error_code rang;
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, rang));
    }
    co_return true;
  }

 private:
  using Waiting = std::list<asio::steady_timer*>;
  class Place {
   public:
    Place(Waiting& waiting, asio::steady_timer& timer)
        : waiting_(waiting), at_(waiting.insert(waiting.end(), &timer)) {}
    ~Place() { waiting_.erase(at_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Waiting& waiting_;
    Waiting::iterator at_;
  };

  Waiting waiting_;
};

}  // namespace pie_client
