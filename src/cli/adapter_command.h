// pie adapter: manages the LoRA adapters of this machine's users.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace pie::cli {

inline constexpr const char* kAdapterAbout =
    "Manage LoRA adapters, in $PIE_HOME/adapters.\n\n"
    "  pie adapter list                             show users, models, ranks and sizes\n"
    "  pie adapter info pirate                      show one adapter, as JSON\n"
    "  pie adapter import pirate ./pirate-lora      read a folder of the PEFT package\n"
    "  pie adapter export pirate ./pirate-lora      write such a folder\n"
    "  pie adapter delete pirate --user ann\n\n"
    "An adapter is checked against its model when an inferlet opens it. Adapters of `pie run`\n"
    "belong to the user \"local\". A running engine keeps an adapter that it has in memory.";

// `command` is `pie adapter`. The subcommand that the user gives is stored in `chosen`.
void AddAdapterCommands(CLI::App& command, std::function<int()>& chosen);

}  // namespace pie::cli
