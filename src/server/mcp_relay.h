// McpRelay: the MCP servers that one client runs, and the requests of processes on their way to it.
// A request goes out as `mcp_request` and is answered by `mcp_response` with the same corr_id. It
// ends with an error when its time is over, or when the client disconnects.
//
// Guests ask from any thread; the rest is for the IO thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "host/byte_budget.h"
#include "host/mcp.h"
#include "server/limits.h"

namespace pie::server {

class McpRelay final : public host::McpServers {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit McpRelay(const Limits& limits) : limits_(limits) {}

  // Sets the budget that requests are charged to while they wait to be sent.
  void SetBudget(std::shared_ptr<host::ByteBudget> budget);
  // `wake` is called on any thread when there may be a frame to send.
  Status Register(std::string_view name, std::function<void()> wake);
  // The next request to send.
  std::optional<std::string> Next();
  // An answer without a waiting request is dropped: the request may have timed out.
  void Answer(uint32_t corr_id, bool ok, std::string_view result);
  // Ends the requests whose time is over. Forgets those whose process is gone.
  void Expire(Time now);
  void Close();

  std::vector<std::string> Names() override;
  Result<std::shared_ptr<host::Pending<host::McpAnswer>>> Ask(
      const host::McpRequest& request) override;

 private:
  struct Waiting {
    std::shared_ptr<host::Pending<host::McpAnswer>> pending;
    std::string server;
    Time deadline;
  };
  const Limits& limits_;
  std::mutex mutex_;
  std::function<void()> wake_;
  std::set<std::string, std::less<>> names_;
  uint32_t next_id_ = 1;
  std::map<uint32_t, Waiting> waiting_;
  struct Frame {
    uint32_t id;
    std::string bytes;
    host::Charge charge;
  };
  std::shared_ptr<host::ByteBudget> budget_;  // null: requests are not charged
  std::deque<Frame> frames_;                  // that are not sent yet
};

}  // namespace pie::server
