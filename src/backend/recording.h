// A backend that reports each chosen token with its context, so that a model's output can be
// recorded. It takes one batch at a time, and its pages hold their tokens too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "backend/backend.h"

namespace pie {

// Called on the step thread with the tokens that a row attends to, and the token chosen there.
using TokenObserver = std::function<void(std::span<const uint32_t> context, uint32_t token)>;

std::unique_ptr<Backend> MakeRecording(std::unique_ptr<Backend> backend, TokenObserver observe);

}  // namespace pie
