// Feed: gives a context tokens, for benchmarks that measure what is done with it afterwards.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "host/context.h"
#include "must.h"

namespace pie {

// Runs a pass over `count` tokens, samples after the last one, and waits for it.
inline void Feed(host::Context& context, uint32_t count, uint32_t seed) {
  auto promise = std::make_shared<std::promise<Result<std::vector<Slot>>>>();
  Forward forward;
  for (uint32_t i = 0; i < count; ++i) {
    forward.tokens.push_back((seed + i * 7919) % 256);
    forward.positions.push_back(context.tokens() + i);
  }
  forward.samples = {{.rows = {count - 1}}};
  forward.done = [promise](auto result) { promise->set_value(std::move(result)); };
  auto result = promise->get_future();
  Must(context.Execute(std::move(forward)));
  Must(result.get());
}

}  // namespace pie
