// Text on its way over the bridge's C ABI: borrowed both ways, for the length of a call.
#pragma once

#include <cstdint>
#include <string_view>

#include "pie_bridge.h"

namespace pie::wasm {

inline pie_bridge::Str ToStr(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view View(pie_bridge::Str text) {
  return {reinterpret_cast<const char*>(text.ptr), text.len};
}

}  // namespace pie::wasm
