// pie cache list|prune: what the cache folder holds, and how to get its disk space back.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace pie::cli {

inline constexpr const char* kCacheAbout =
    "Show what the cache folder holds, and free its disk space.\n\n"
    "  pie cache list                    show the sizes, by kind\n"
    "  pie cache prune                   delete entries that were not used for 30 days\n"
    "  pie cache prune --days 0          delete everything but the models\n\n"
    "Deleted entries are downloaded or built again when they are needed. Models stay.";

// Adds the subcommands. When one is chosen, `chosen` runs it and returns the exit code.
void AddCacheCommands(CLI::App& cache, std::function<int()>& chosen);

}  // namespace pie::cli
