// BLAKE3, the plain hash of 256 bits, in portable C++: about half a gigabyte a second, which is
// more than a file on its way over a socket needs.
#pragma once

#include <string>
#include <string_view>

namespace pie_client {

// In hex.
std::string Blake3Hex(std::string_view bytes);

}  // namespace pie_client
