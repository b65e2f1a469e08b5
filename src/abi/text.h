// Texts and lists that cross the bridge's C ABI. Both directions borrow them for the length of a
// call.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pie_bridge.h"

namespace pie::abi {

inline pie_bridge::Str ToStr(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view View(pie_bridge::Str text) {
  return {reinterpret_cast<const char*>(text.ptr), text.len};
}
template <class T>
std::span<const T> View(pie_bridge::List<T> list) {
  return {list.ptr, list.len};
}

}  // namespace pie::abi
