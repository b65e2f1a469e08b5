// Limits on the memory of a client, and constants of the protocol.
#pragma once

#include <cstddef>

namespace pie_client {

inline constexpr size_t kChunkBytes = 256 << 10;       // fixed by the protocol
inline constexpr size_t kMaxFrameBytes = 17 << 20;     // the largest frame that the server accepts
inline constexpr size_t kMaxIncomingBytes = 64 << 20;  // the largest frame or file to accept
// When more events or bytes than this are not taken, the client stops reading, unless a call waits
// for something else.
inline constexpr size_t kUnreadEvents = 4'096;
inline constexpr size_t kUnreadBytes = 16 << 20;
// When more bytes than this are not taken, the client closes the connection.
inline constexpr size_t kMaxUnreadBytes = 256 << 20;

}  // namespace pie_client
