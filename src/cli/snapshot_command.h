// pie snapshot: manages the contexts that inferlets saved on this machine.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace pie::cli {

inline constexpr const char* kSnapshotAbout =
    "The contexts that inferlets saved, in $PIE_HOME/snapshots.\n\n"
    "  pie snapshot list                               their users, models and sizes\n"
    "  pie snapshot list --json\n"
    "  pie snapshot export chat chat.snapshot          write one to a file, as a backup or to move "
    "it\n"
    "  pie snapshot import chat.snapshot --user ann    read it on another machine, or for another "
    "user\n"
    "  pie snapshot delete chat --user ann\n\n"
    "A snapshot opens only on the model that computed it, with the same kv_page_size and\n"
    "kv_cache_dtype. Snapshots of `pie run` belong to the user \"local\". The engine may keep "
    "running\n"
    "during all of these commands.";

// `command` is `pie snapshot`. The subcommand that the user gives is stored in `chosen`.
void AddSnapshotCommands(CLI::App& command, std::function<int()>& chosen);

}  // namespace pie::cli
