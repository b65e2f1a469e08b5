// blake3, which names programs and files on the wire and on disk.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace pie::host {

std::array<uint8_t, 32> Blake3(std::string_view bytes);
std::string Blake3Hex(std::string_view bytes);  // 64 lower-case digits

}  // namespace pie::host
