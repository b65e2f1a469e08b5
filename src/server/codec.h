// Converts between MessagePack frames and messages. Pure functions. No input makes them crash,
// allocate more than a small multiple of its size, or nest deeper than two levels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/limits.h"
#include "server/message.h"

namespace pie::server {

// A frame that is not a valid message. If it has a corr_id, the server answers with an error;
// otherwise it closes the connection.
struct BadFrame {
  std::optional<uint32_t> corr_id;
  std::string text;
};

// The result's texts point into `frame`.
std::expected<ClientMessage, BadFrame> Decode(std::string_view frame, const Limits& limits);

enum class EventKind { kStdout, kStderr, kMessage, kReturn, kError };

// Encode frames to a client. `seq` is present for clients that asked for numbered events.
std::string EncodeResponse(uint32_t corr_id, bool ok, std::string_view result);
std::string EncodeEvent(std::string_view process_id, EventKind kind, std::string_view value,
                        std::optional<uint64_t> seq = {});
std::string EncodeFileChunk(std::string_view process_id, const Chunk& chunk,
                            std::optional<uint64_t> seq = {});
// Asks a client to pass a request on to one of its MCP servers. `params` is JSON.
std::string EncodeMcpRequest(uint32_t corr_id, std::string_view process_id, std::string_view server,
                             std::string_view method, std::string_view params);

// For the fuzzer: decodes any bytes and checks the result against the frame.
void FuzzDecode(std::string_view frame);

}  // namespace pie::server
