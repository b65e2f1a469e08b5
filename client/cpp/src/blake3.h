// The 256-bit BLAKE3 hash in portable C++. It hashes about half a gigabyte per second, faster than
// a socket delivers data.
#pragma once

#include <string>
#include <string_view>

namespace pie_client {

// Returns the hash in hex.
std::string Blake3Hex(std::string_view bytes);

}  // namespace pie_client
