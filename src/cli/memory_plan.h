// MemoryPlan: how the memory that the engine may use is divided. Models take their weights and KV
// pages at the start. What they leave is divided among the budgets that inferlets and clients fill,
// so that all of them together fit, even when each is full. A budget never exceeds its usual limit,
// and a budget that the config sets is left alone.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "cli/config.h"
#include "server/limits.h"

namespace pie::cli {

struct MemoryPlan {
  uint64_t total = 0;   // that the engine may use
  uint64_t models = 0;  // weights, KV pages and swapped pages
  uint64_t room = 0;    // for the budgets

  void Cap(const Config& config, host::Limits& limits) const;
  void Cap(const Config& config, wasm::CompileLimits& limits) const;
  void Cap(server::Limits& limits) const;
};

// The memory of the config, or that of the machine or the control group.
uint64_t MemoryOf(const Config& config);
// The part of `total` that models may take.
uint64_t MemoryForModels(uint64_t total);
// Fails if the models leave too little.
Result<MemoryPlan> PlanMemory(uint64_t total, uint64_t models);

}  // namespace pie::cli
