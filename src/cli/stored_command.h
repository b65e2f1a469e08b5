// Shared by the commands about stored things (`pie snapshot`, `pie adapter`): a thing belongs to a
// user and a model, and has a name.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "cli/terminal.h"

namespace pie::cli {

struct StoredArguments {
  std::string config;
  std::string name;
  std::string path;  // a file or a folder to import or export
  std::string user;
  std::string model;
  bool json = false;
};

// Adds the options that name one thing. `name` says what the name is.
inline void AddWhose(CLI::App& command, StoredArguments& arguments, const char* name) {
  arguments.user = "local";
  arguments.model = "default";
  command.add_option("name", arguments.name, name)->required();
  command.add_option("--user", arguments.user, "the user it belongs to (default: local)");
  command.add_option("--model", arguments.model, "the model's name (default: default)");
}

// Adds a subcommand. When it is chosen, `chosen` runs it and returns the exit code.
inline std::pair<CLI::App*, std::shared_ptr<StoredArguments>> AddStored(
    CLI::App& command, std::function<int()>& chosen, const char* name, const char* about,
    Status (*run)(const StoredArguments&)) {
  auto arguments = std::make_shared<StoredArguments>();
  CLI::App* const sub = command.add_subcommand(name, about);
  sub->add_option("-c,--config", arguments->config,
                  "config file (default: ~/.pie/config.toml, if it exists)");
  sub->callback([arguments, run, &chosen] {
    chosen = [=] {
      const Status status = run(*arguments);
      return ExitCode(status);
    };
  });
  return {sub, std::move(arguments)};
}

}  // namespace pie::cli
