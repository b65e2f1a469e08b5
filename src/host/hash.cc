#include "host/hash.h"

#include "abi/text.h"

namespace pie::host {

std::array<uint8_t, 32> Blake3(std::string_view bytes) {
  std::array<uint8_t, 32> hash{};
  pie_bridge::pie_blake3(abi::ToStr(bytes), hash.data());
  return hash;
}

std::string Blake3Hex(std::string_view bytes) {
  const std::array<uint8_t, 32> hash = Blake3(bytes);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(hash.size() * 2);
  for (const uint8_t byte : hash) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

}  // namespace pie::host
