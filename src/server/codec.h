// MessagePack frames ↔ messages. Pure functions; no input makes them crash, allocate more than a
// small multiple of its size, or nest deeper than two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/limits.h"
#include "server/message.h"

namespace pie::server {

// A frame that is no message. With a corr_id it can be answered; without one there is nobody to
// tell but by closing the connection.
struct BadFrame {
  std::optional<uint32_t> corr_id;
  std::string text;
};

// Texts of the result point into `frame`.
std::expected<ClientMessage, BadFrame> Decode(std::string_view frame, const Limits& limits);

enum class EventKind { kStdout, kStderr, kMessage, kReturn, kError };

// Frames to a client. `seq` is there for clients that asked for numbers.
std::string EncodeResponse(uint32_t corr_id, bool ok, std::string_view result);
std::string EncodeEvent(std::string_view process_id, EventKind kind, std::string_view value,
                        std::optional<uint64_t> seq = {});
std::string EncodeFileChunk(std::string_view process_id, const Chunk& chunk,
                            std::optional<uint64_t> seq = {});

// Holds for any bytes; for the fuzzer. Decodes, and checks what came out against the frame.
void FuzzDecode(std::string_view frame);

}  // namespace pie::server
