// Starts the engine that a config describes.
#pragma once

#include <memory>

#include "base/result.h"
#include "cli/config.h"
#include "host/engine.h"

namespace pie::cli {

// Loads the models and shows the progress on stderr, unless `quiet`.
Result<std::unique_ptr<host::Engine>> StartEngine(const Config& config, bool quiet);

}  // namespace pie::cli
