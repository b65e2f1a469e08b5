// Process: a process on the server. What it says comes by Recv, in order. Calls wait; any thread
// may make them. Losing this object, or the connection, does not end the process; what it says
// after its Process is gone is dropped.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "pie_client/event.h"

namespace pie_client {

class Loop;
namespace async {
class Process;
}

class Process {
 public:
  ~Process();
  Process(Process&&) noexcept;
  Process& operator=(Process&&) noexcept;

  const std::string& id() const;

  // The next event. Throws ProcessEnded behind the last one, RequestTimeout after `limit`, and
  // ConnectionLost when what came before the connection broke has all been taken.
  Event Recv(std::optional<std::chrono::milliseconds> limit = {});
  // The same; nothing behind the last one.
  std::optional<Event> Next();
  // The next of what it sends and prints; nothing when it has returned. Other events are passed
  // over. Throws ProcessError if it fails.
  std::optional<std::string> NextText();
  // All that it sends and prints until it ends.
  std::string Text();
  // What it returns; all else that it says is passed over.
  std::string Result();

  // What it returned, once that has arrived.
  std::optional<std::string> return_value() const;
  // Whether its last word has arrived.
  bool ended() const;
  // How many of its events have arrived: what AttachProcess of another client goes on from.
  std::optional<uint64_t> seen() const;

  // Nobody will listen: what it says is dropped, so that it does not keep the connection from
  // reading. Only its end is kept.
  void Discard();

  // Puts a message into its inbox (session.receive).
  void Signal(std::string_view message);
  // Sends a file (session.receive_file).
  void TransferFile(std::string_view bytes);
  // Ends it; its last event will be the error `cancelled`.
  void Terminate();

 private:
  friend class Client;
  struct Inside;
  Process(std::shared_ptr<Loop> loop, async::Process process);

  std::unique_ptr<Inside> in_;
};

}  // namespace pie_client
