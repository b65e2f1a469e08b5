// McpServer: an MCP server that runs beside this client. A server is a program that speaks the
// Model Context Protocol over its stdin and stdout, one JSON message per line. A server that dies
// is started again by the next request, after a pause that grows. Everything runs on the strand of
// the Core.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "asio.h"
#include "bell.h"
#include "pie_client/errors.h"

namespace pie_client {

class McpServer {
 public:
  using Json = nlohmann::json;
  // `command` is the program and its arguments.
  McpServer(std::string name, std::vector<std::string> command)
      : name_(std::move(name)), command_(std::move(command)) {}

  // Starts the program unless it runs. Throws McpError.
  asio::awaitable<void> Start();
  // Returns the result of a request. Throws McpError.
  asio::awaitable<Json> Request(std::string method, Json params);
  // Ends the program: by the end of its input, and after two seconds by a signal.
  asio::awaitable<void> Stop();

 private:
  class Running;  // one life of the program
  using Time = std::chrono::steady_clock::time_point;

  asio::awaitable<void> StartNow();

  const std::string name_;
  const std::vector<std::string> command_;
  std::shared_ptr<Running> running_;
  bool starting_ = false;
  Bell started_;
  int failures_ = 0;
  Time started_at_;
};

using McpServers = std::map<std::string, std::shared_ptr<McpServer>, std::less<>>;

// Serves an `mcp_request`. Returns whether it succeeded, and the JSON of its result or error.
asio::awaitable<std::pair<bool, std::string>> RelayMcp(const McpServers& servers,
                                                       McpServer::Json frame);

}  // namespace pie_client
