// pie completion: generates a shell script from the definitions of the commands, so it is always
// complete.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"

namespace pie::cli {

Result<std::string> CompletionScript(const CLI::App& app, const std::string& shell);
int PrintCompletion(const CLI::App& app, const std::string& shell);

}  // namespace pie::cli
