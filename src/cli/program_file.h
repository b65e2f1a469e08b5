// A component and the input that it is run with, as the command line names them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/interrupts.h"
#include "host/engine.h"
#include "host/manifest.h"

namespace pie::cli {

Result<std::string> ReadComponent(const std::string& path);

// `input` is the value of --input, or empty. `arguments` are those after --; they are added to the
// input.
Result<nlohmann::json> MakeInput(const std::string& input,
                                 const std::vector<std::string>& arguments,
                                 const host::Manifest& manifest);

// Waits until code that was compiled quickly for this run is compiled again with optimisation, so
// that later runs start with it. False after Ctrl-C: the compiler's threads are still running.
bool AwaitOptimiser(host::Engine& engine, const std::string& program, const Interrupts& interrupts,
                    bool quiet);

}  // namespace pie::cli
