// The commands of a server and of those who keep one: serve, auth, inferlet, config, check, driver,
// completion.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace pie::cli {

// Adds them to `app`. The one that was given is put into `chosen`, which gives the exit code.
void AddServerCommands(CLI::App& app, std::function<int()>& chosen);

}  // namespace pie::cli
