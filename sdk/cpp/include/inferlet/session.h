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

// Arrives at the client as a Stdout event. An error when the message is too long.
Result<void> Send(std::string_view message);
inline Result<void> Send(const char* message) {
  return Send(std::string_view(message));
}
inline Result<void> Send(const std::string& message) {
  return Send(std::string_view(message));
}
// A string goes out as it is, everything else as JSON.
Result<void> Send(const Json& message);
// Arrives as a File event. An error when the file is too long.
Result<void> SendFile(std::span<const uint8_t> data);

// The client's next message or signal; none while no client is attached, which may come back. It is
// asked for when the function is called, and waits as long as it takes: see Timeout.
Task<std::optional<std::string>> Receive();
// The client's next file; none while no client is attached.
Task<std::optional<std::vector<uint8_t>>> ReceiveFile();

}  // namespace inferlet::session
