// Must: the value of a result. An error ends the program: a benchmark that goes on after a failure
// would measure something else.
#pragma once

#include <errno.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace pie {

template <class T>
T Must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{}: {}\n", program_invocation_short_name, result.error().text);
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace pie
