// Makes an asynchronous device of a synchronous one: batches run on a thread of its own, in the
// order in which they were submitted, while the caller plans the next ones.
//
// It is for tests, and for devices that have no queue of their own. The thread is the only one that
// calls the wrapped device while a batch is in flight; page copies wait until none is.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"

namespace pie {

struct AsynchronousOptions {
  uint32_t batches_in_flight = 2;
  uint32_t latency_us = 0;  // the minimum duration of a batch
};

std::unique_ptr<Backend> MakeAsynchronous(std::unique_ptr<Backend> device,
                                          AsynchronousOptions options = {});

}  // namespace pie
