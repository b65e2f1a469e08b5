// The inferlets that come with the engine, such as the OpenAI API. They are installed like any
// other program when a server starts, and use nothing that a user's inferlet could not.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/registry.h"

namespace pie::cli {

// The folder that holds their components and manifests (NAME.wasm, NAME.toml), beside the program:
// ../share/pie/inferlets. It may be missing.
std::string ShippedDir();

// The folder of the page that a browser gets from a server: ../share/pie/web. It may be missing.
std::string WebDir();

// Installs one of them, unless this very version is installed. Returns whether it is there.
Result<bool> InstallShipped(server::Registry& registry, std::string_view name);

}  // namespace pie::cli
