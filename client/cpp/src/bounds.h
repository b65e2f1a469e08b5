// What bounds the memory of a client, and what the protocol fixes.
#pragma once

#include <cstddef>

namespace pie_client {

inline constexpr size_t kChunkBytes = 256 << 10;       // fixed by the protocol
inline constexpr size_t kMaxFrameBytes = 17 << 20;     // what the server takes in one frame
inline constexpr size_t kMaxIncomingBytes = 64 << 20;  // what this client takes, in one file too
inline constexpr size_t kUnreadEvents = 4'096;         // past these the client stops reading,
inline constexpr size_t kUnreadBytes = 16 << 20;       // unless somebody waits …
inline constexpr size_t kMaxUnreadBytes = 256 << 20;   // … up to this; then it gives up

}  // namespace pie_client
