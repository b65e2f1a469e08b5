// pie snapshot: the contexts that inferlets saved on this machine.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace pie::cli {

inline constexpr const char* kSnapshotAbout =
    "The contexts that inferlets saved, in $PIE_HOME/snapshots.\n\n"
    "  pie snapshot list                               whose, of which model, how long\n"
    "  pie snapshot list --json\n"
    "  pie snapshot export chat chat.snapshot          one file, to keep or to carry elsewhere\n"
    "  pie snapshot import chat.snapshot --user ann    for the engine of another machine or user\n"
    "  pie snapshot delete chat --user ann\n\n"
    "A snapshot opens only on the model that computed it, with the same kv_page_size and\n"
    "kv_cache_dtype. Those of `pie run` belong to the user \"local\". A running engine need not "
    "be\n"
    "stopped for any of this.";

// `command` is `pie snapshot`. What the user chose is put into `chosen`.
void AddSnapshotCommands(CLI::App& command, std::function<int()>& chosen);

}  // namespace pie::cli
