// Contain: calls a device. An exception of the device, for example when memory runs out, becomes
// the error of the call: one batch fails, and the engine goes on.
#pragma once

#include <exception>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace pie {

template <class Call>
auto Contain(std::string_view device, Call&& call) -> decltype(call()) {
  try {
    return std::forward<Call>(call)();
  } catch (const std::exception& error) {
    return Fail(Code::kInternal, "the device {} failed: {}", device, error.what());
  }
}

}  // namespace pie
