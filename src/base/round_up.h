// RoundUp: the smallest multiple of a number that is not below a value.
#pragma once

#include <concepts>
#include <type_traits>

namespace pie {

// `multiple` is above 0. The result must fit T.
template <std::unsigned_integral T>
constexpr T RoundUp(T value, std::type_identity_t<T> multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace pie
