// Starts the engine that a config describes.
#pragma once

#include <memory>

#include "base/result.h"
#include "cli/config.h"
#include "cli/memory_plan.h"
#include "host/engine.h"

namespace pie::cli {

// Loads the models and shows the progress on stderr, unless `quiet`. The limits of the config that
// bound memory are fitted to the machine; `memory` gets the plan.
Result<std::unique_ptr<host::Engine>> StartEngine(const Config& config, bool quiet,
                                                  MemoryPlan* memory = nullptr);

// Returns the plan that StartEngine would make, without loading the models. What a dummy model and
// pages that are swapped out take is not in it.
Result<MemoryPlan> EstimateMemory(const Config& config);

}  // namespace pie::cli
