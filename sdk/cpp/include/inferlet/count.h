// Count: a number of tokens or the like, made from an integer of any type.
//
// A parameter of an unsigned type would silently take -1 for the largest number there is. A Count
// keeps the sign, so that the call can fail with the number that it was given.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "inferlet/result.h"

namespace inferlet {

// A number of things, which must not be negative.
class Count {
 public:
  // Takes a number of any integer type, also a negative one.
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  constexpr Count(T n)  // NOLINT(google-explicit-constructor)
      : value_(std::in_range<int64_t>(n) ? static_cast<int64_t>(n)
                                         : std::numeric_limits<int64_t>::max()) {}

  // The number as it was given.
  constexpr int64_t Value() const { return value_; }
  // The number as a T: the largest T for numbers that are too large, 0 for negative ones.
  template <std::unsigned_integral T>
  constexpr T As() const {
    if (value_ < 0) return 0;
    return std::in_range<T>(value_) ? static_cast<T>(value_) : std::numeric_limits<T>::max();
  }
  // Fails with the name of the argument if the number is negative.
  Result<void> Check(std::string_view argument) const {
    if (value_ >= 0) return {};
    return Error(std::string(argument) + " must be 0 or more, not " + std::to_string(value_));
  }

 private:
  int64_t value_;
};

}  // namespace inferlet
