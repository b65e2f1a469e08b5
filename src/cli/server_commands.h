// The commands for running and administering a server: serve, auth, inferlet, config, check,
// driver, completion.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace pie::cli {

// Adds the commands to `app`. The command that the user gives is stored in `chosen`, which returns
// the exit code.
void AddServerCommands(CLI::App& app, std::function<int()>& chosen);

}  // namespace pie::cli
