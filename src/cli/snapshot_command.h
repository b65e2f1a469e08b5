// pie snapshot: manages the contexts that inferlets saved on this machine.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace pie::cli {

inline constexpr const char* kSnapshotAbout =
    "Manage the contexts that inferlets saved, in $PIE_HOME/snapshots.\n\n"
    "  pie snapshot list                               show users, models and sizes\n"
    "  pie snapshot list --json\n"
    "  pie snapshot export chat chat.snapshot          write a snapshot to a file\n"
    "  pie snapshot import chat.snapshot --user ann    read such a file, here or elsewhere\n"
    "  pie snapshot delete chat --user ann\n\n"
    "A snapshot opens only on the model that computed it, with the same kv_page_size and\n"
    "kv_cache_dtype. Snapshots of `pie run` belong to the user \"local\".\n"
    "The engine may keep running during all of these commands.";

// `command` is `pie snapshot`. The subcommand that the user gives is stored in `chosen`.
void AddSnapshotCommands(CLI::App& command, std::function<int()>& chosen);

}  // namespace pie::cli
