// pie: the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "cli/bakery.h"
#include "cli/doctor.h"
#include "cli/model_command.h"
#include "cli/run.h"
#include "cli/server_commands.h"
#include "cli/terminal.h"

namespace {

constexpr const char* kAbout =
    "Pie runs programs (inferlets) next to a language model.\n\n"
    "  pie new my-app                     a new inferlet in Rust (--python, --ts, --cpp)\n"
    "  pie build my-app -o my-app.wasm    build it\n"
    "  pie run -p my-app.wasm -m my-app/Pie.toml -- --prompt hello\n"
    "  pie serve                          the engine behind a port, for clients\n"
    "  pie model list                     the models on this machine\n";

// `new` and `build` belong to bakery: everything behind the word goes there as it is.
int Forward(const char* verb, int argc, char** argv) {
  std::vector<std::string> arguments{verb};
  arguments.insert(arguments.end(), argv + 2, argv + argc);
  return pie::cli::ExecBakery(arguments);
}

CLI::App* AddRun(CLI::App& app, pie::cli::RunOptions& run, int& port) {
  CLI::App* command = app.add_subcommand(
      "run",
      "Run an inferlet in an engine of its own and print what it returns.\n\n"
      "  pie run --path hello.wasm --manifest hello/Pie.toml -- --name Ada\n"
      "  pie run -p chat.wasm --stdout --input '{\"prompt\": \"hi\"}'\n"
      "  pie run --dummy -p chat.wasm      without a model: gibberish, at once\n\n"
      "Arguments behind -- become the input: --max-tokens 8 is {\"max_tokens\": 8}. Without "
      "--stdout only\n"
      "the return value goes to stdout. Exit codes: 0, 1 for an error, 130 for Ctrl-C.");
  command->add_option("program", run.program, "NAME[@VERSION] of an installed program");
  command->add_option("-p,--path", run.path, "the component, as `pie build` makes it");
  command->add_option("-m,--manifest", run.manifest,
                      "its Pie.toml (default: beside the component)");
  command->add_option("-c,--config", run.config,
                      "config file (default: ~/.pie/config.toml, if any)");
  command->add_option("--port", port, "accepted for scripts; this engine opens no port");
  command->add_option("--input", run.input, "the input: JSON, @FILE, or - for standard input");
  command->add_flag("--stdout", run.stream,
                    "also print what the inferlet sends and prints, as it comes");
  command->add_flag("--debug", run.debug, "print what the engine still holds at the end");
  command->add_flag("-q,--quiet", run.quiet, "no progress, no notices");
  command->add_option("--log", run.log, "append a log to this file");
  command->add_flag("--dummy", run.dummy, "run on the dummy model: no weights, gibberish, at once");
  return command;
}

struct ModelCommands {
  CLI::App *list, *download, *remove;
  std::string name;
};

void AddModel(CLI::App& app, ModelCommands& commands) {
  CLI::App* model = app.add_subcommand(
      "model",
      "The models on this machine.\n\n"
      "  pie model list                                 what is here\n"
      "  pie model download                             the default model, 98 MB\n"
      "  pie model download Qwen/Qwen3-0.6B             from the hub, by its client `hf`\n"
      "  pie model remove Qwen/Qwen3-0.6B\n\n"
      "A config names a model by hf_repo: such a name, a .gguf file, or a Hugging Face folder.");
  model->require_subcommand(1);
  commands.list = model->add_subcommand("list", "The models that are here, and what they are.");
  commands.download = model->add_subcommand("download", "Bring a model to this machine.");
  commands.download->add_option("name", commands.name, "NAME, or OWNER/NAME; default: the default");
  commands.remove = model->add_subcommand("remove", "Delete a downloaded model.");
  commands.remove->add_option("name", commands.name, "as `pie model list` shows it")->required();
}

int Main(int argc, char** argv) {
  if (argc >= 2 && std::string(argv[1]) == "new") return Forward("create", argc, argv);
  if (argc >= 2 && std::string(argv[1]) == "build") return Forward("build", argc, argv);

  // What stands behind -- is the inferlet's, not ours.
  std::vector<std::string> ours(argv + 1, argv + argc), theirs;
  auto dashes = std::find(ours.begin(), ours.end(), "--");
  if (dashes != ours.end()) {
    theirs.assign(dashes + 1, ours.end());
    ours.erase(dashes, ours.end());
  }

  CLI::App app(kAbout, "pie");
  app.set_version_flag("--version", std::string("pie ") + PIE_VERSION);
  app.require_subcommand(0, 1);
  pie::cli::RunOptions run;
  int port = 0;
  CLI::App* run_command = AddRun(app, run, port);
  ModelCommands models;
  AddModel(app, models);
  std::function<int()> chosen;
  pie::cli::AddServerCommands(app, chosen);
  CLI::App* doctor =
      app.add_subcommand("doctor", "Check this installation and say how to mend it.");
  app.add_subcommand("new",
                     "Make a new inferlet: pie new NAME [--rust|--python|--ts|--cpp] [-o DIR]");
  app.add_subcommand("build", "Build an inferlet: pie build DIR -o OUT.wasm [--debug]");
  try {
    std::reverse(ours.begin(), ours.end());
    app.parse(ours);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  run.arguments = theirs;
  if (*run_command) return pie::cli::Run(run);
  if (*models.list) return pie::cli::ListModels();
  if (*models.download) return pie::cli::DownloadModelCommand(models.name);
  if (*models.remove) return pie::cli::RemoveModelCommand(models.name);
  if (chosen) return chosen();
  if (*doctor) return pie::cli::Doctor();
  fmt::print("{}", app.help());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    return pie::cli::ReportError(error.what());
  }
}
