// Interruption: lets a long check end early, once something more urgent has come.
//
// Owner: the check. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "base/result.h"

namespace pie {

class Interruption {
 public:
  Interruption() = default;  // never comes
  explicit Interruption(std::function<bool()> has_come) : has_come_(std::move(has_come)) {}

  // To be called for every small step of the check. Fails with kCancelled after the interruption
  // has come. Only every 1,024th call asks for it, so most calls cost an addition.
  Status Step() const {
    constexpr uint32_t kSteps = 1'024;
    if (++steps_ % kSteps != 0 || !has_come_ || !has_come_()) return {};
    return Fail(Code::kCancelled, "the check was interrupted");
  }

 private:
  const std::function<bool()> has_come_;
  mutable uint32_t steps_ = 0;
};

}  // namespace pie
