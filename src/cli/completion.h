// pie completion: a script for a shell, made from the commands themselves, so it cannot drift.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"

namespace pie::cli {

Result<std::string> CompletionScript(const CLI::App& app, const std::string& shell);
int PrintCompletion(const CLI::App& app, const std::string& shell);

}  // namespace pie::cli
