// The channel to the client that launched this inferlet.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inferlet/json.h"
#include "inferlet/result.h"
#include "inferlet/task.h"

namespace inferlet::session {

// Sends a message, which arrives at the client as a Stdout event. Fails if it is too long.
Result<void> Send(std::string_view message);
inline Result<void> Send(const char* message) {
  return Send(std::string_view(message));
}
inline Result<void> Send(const std::string& message) {
  return Send(std::string_view(message));
}
// Sends a JSON value: a string as it is, everything else as JSON.
Result<void> Send(const Json& message);
// Sends a file, which arrives at the client as a File event. Fails if it is too long.
Result<void> SendFile(std::span<const uint8_t> data);

// Waits for the client's next message or signal. Returns none if no client is attached; a client
// may come back later. The request begins with the call, and the wait has no limit: see Timeout.
Task<std::optional<std::string>> Receive();
// Waits for the client's next file. Returns none if no client is attached.
Task<std::optional<std::vector<uint8_t>>> ReceiveFile();

}  // namespace inferlet::session
