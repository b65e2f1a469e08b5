// Process: a process on the server. Recv gives its events in order. Calls block; any thread may
// make them. Destroying this object or losing the connection does not end the process. Events that
// arrive after the object is destroyed are dropped.
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

// A process on the server, and the events that have arrived from it.
class Process {
 public:
  ~Process();
  Process(Process&&) noexcept;
  Process& operator=(Process&&) noexcept;

  // The id of the process, which AttachProcess takes.
  const std::string& id() const;

  // Returns the next event. Throws ProcessEnded after the last one and RequestTimeout after
  // `limit`. If the connection broke, throws ConnectionLost after all events that arrived before
  // were taken.
  Event Recv(std::optional<std::chrono::milliseconds> limit = {});
  // Returns the next event, or nothing after the last one.
  std::optional<Event> Next();
  // Returns the next text that the process sends or prints, or nothing when it has returned. Skips
  // other events. Throws ProcessError if the process fails.
  std::optional<std::string> NextText();
  // Returns all text that the process sends and prints until it ends.
  std::string Text();
  // Waits for the end and returns the return value. Skips all other events.
  std::string Result();

  // The return value, or nothing before it has arrived.
  std::optional<std::string> return_value() const;
  // Whether the last event has arrived.
  bool ended() const;
  // The number of events that have arrived. Another client can pass it to AttachProcess to continue
  // from there. Nothing if the events are not numbered.
  std::optional<uint64_t> seen() const;

  // Drops all events but the last, now and in future, so that unread events do not stop the
  // connection from reading.
  void Discard();

  // Sends a message to the process, which gets it from session.receive.
  void Signal(std::string_view message);
  // Sends a file to the process, which gets it from session.receive_file.
  void TransferFile(std::string_view bytes);
  // Cancels the process. Its last event will be the error `cancelled`.
  void Terminate();

 private:
  friend class Client;
  struct Inside;
  Process(std::shared_ptr<Loop> loop, async::Process process);

  std::unique_ptr<Inside> in_;
};

}  // namespace pie_client
