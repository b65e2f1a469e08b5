// Sessions: all processes that clients launched and can still attach to, by id. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "host/engine.h"
#include "host/users.h"
#include "server/limits.h"
#include "server/session.h"

namespace pie::server {

class Sessions {
 public:
  Sessions(host::Engine& engine, const Limits& limits, size_t max_processes);

  // Launches a program that the engine has loaded, with `outlet` attached before its first event.
  Result<std::shared_ptr<Session>> Launch(const std::string& program, std::string_view input,
                                          Session::Options options,
                                          std::optional<uint64_t> token_budget,
                                          std::shared_ptr<Outlet> outlet);
  // Finds a process of this user. Processes of other users count as not found.
  Result<std::shared_ptr<Session>> Find(std::string_view id, std::string_view user);
  std::vector<std::shared_ptr<Session>> Of(std::string_view user);
  void Remove(const std::string& id);
  // Removes ended processes whose time is over, and the oldest of those that are too many. A user
  // may keep a share of the places. Called periodically.
  void Sweep();
  void CancelAll();

  size_t running() const { return running_->load(); }
  size_t size();
  const host::ByteBudget& buffered() const { return buffered_.whole(); }
  // The budget that a user's events and unread responses are charged to.
  std::shared_ptr<host::ByteBudget> BufferOf(std::string_view user) { return buffered_.Of(user); }

 private:
  host::Engine& engine_;
  const Limits& limits_;
  const size_t max_processes_;
  host::SharedBudget buffered_, places_, running_places_;
  const std::shared_ptr<std::atomic<size_t>> running_;
  std::mutex mutex_;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::shared_ptr<Session>, Hash, std::equal_to<>> sessions_;
};

}  // namespace pie::server
