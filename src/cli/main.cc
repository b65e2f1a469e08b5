// pie: the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/bakery.h"
#include "cli/doctor.h"
#include "cli/model_command.h"
#include "cli/run.h"
#include "cli/server_commands.h"
#include "cli/terminal.h"
#include "cli/test_command.h"
#include "cli/version.h"
#include "wasm/runtime.h"

namespace {

constexpr const char* kAbout =
    "Pie runs programs (inferlets) next to a language model.\n\n"
    "  pie new my-app                     create an inferlet in Rust (or --python, --ts, --cpp)\n"
    "  pie build my-app -o my-app.wasm    build it\n"
    "  pie test my-app                    run its tests on a scripted model\n"
    "  pie run -p my-app.wasm -m my-app/Pie.toml -- --prompt hello\n"
    "  pie serve                          run the engine as a server for clients\n"
    "  pie model list                     list the models on this machine\n";

// Lists each command with the first line of its description.
class ShortFormatter : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* command) const override {
    const std::string about = command->get_description();
    return fmt::format("  {:<12}{}\n", command->get_name(), about.substr(0, about.find('\n')));
  }
};

// `new` and `build` are commands of bakery: all arguments are passed on unchanged.
int Forward(const char* verb, int argc, char** argv) {
  std::vector<std::string> arguments{verb};
  arguments.insert(arguments.end(), argv + 2, argv + argc);
  return pie::cli::ExecBakery(arguments);
}

CLI::App* AddRun(CLI::App& app, pie::cli::RunOptions& run, int& port) {
  CLI::App* command = app.add_subcommand(
      "run",
      "Run an inferlet in its own engine and print its return value.\n\n"
      "  pie run --path hello.wasm --manifest hello/Pie.toml -- --name Ada\n"
      "  pie run -p chat.wasm --stdout --input '{\"prompt\": \"hi\"}'\n"
      "  pie run --dummy -p chat.wasm      without a model: gibberish, starts at once\n\n"
      "Arguments after -- become the input: --max-tokens 8 is {\"max_tokens\": 8}.\n"
      "Without --stdout, only the return value is printed on stdout.\n"
      "Exit codes: 0, 1 for an error, 130 for Ctrl-C.");
  command->add_option("program", run.program, "NAME[@VERSION] of an installed program");
  command->add_option("-p,--path", run.path, "the component, a file that `pie build` wrote");
  command->add_option("-m,--manifest", run.manifest,
                      "its manifest (default: the Pie.toml beside the component)");
  command->add_option("-c,--config", run.config,
                      "config file (default: ~/.pie/config.toml, if it exists)");
  command->add_option("--port", port, "ignored, for compatibility: `pie run` opens no port");
  command->add_option("--input", run.input, "the input: JSON, @FILE, or - for standard input");
  command->add_flag("--stdout", run.stream,
                    "also print the inferlet's messages and output as they arrive");
  command->add_flag(
      "--debug", run.debug,
      "at the end, print how many handles, contexts and pages the engine still holds");
  command->add_flag("-q,--quiet", run.quiet, "print no progress and no notices");
  command->add_flag("--escapes", run.escapes,
                    "let the inferlet's output control the terminal (colours, cursor)");
  command->add_option("--log", run.log, "append a log of the run to this file");
  command->add_flag("--dummy", run.dummy,
                    "use the dummy model: it needs no weights and writes gibberish; "
                    "--dummy=MODEL gives it the tokens and the chat template of a real model");
  return command;
}

struct ModelCommands {
  CLI::App *list, *download, *remove;
  std::string name;
};

void AddModel(CLI::App& app, ModelCommands& commands) {
  CLI::App* model = app.add_subcommand(
      "model",
      "Manage the models on this machine.\n\n"
      "  pie model list                                 list the downloaded models\n"
      "  pie model download                             download the default model, 98 MB\n"
      "  pie model download Qwen/Qwen3-0.6B             download from the hub, with its client hf\n"
      "  pie model remove Qwen/Qwen3-0.6B\n\n"
      "In a config file, hf_repo is such a name, a .gguf file, or a Hugging Face folder.");
  model->require_subcommand(1);
  commands.list =
      model->add_subcommand("list", "List the downloaded models with their sizes and properties.");
  commands.download = model->add_subcommand("download", "Download a model.");
  commands.download->add_option("name", commands.name,
                                "NAME, or OWNER/NAME on the hub (default: the default model)");
  commands.remove = model->add_subcommand("remove", "Delete a downloaded model.");
  commands.remove->add_option("name", commands.name, "a name that `pie model list` shows")
      ->required();
}

int Main(int argc, char** argv) {
  if (argc >= 2 && std::string(argv[1]) == "new") return Forward("create", argc, argv);
  if (argc >= 2 && std::string(argv[1]) == "build") return Forward("build", argc, argv);
  // The engine starts this program again to compile components.
  if (argc >= 2 && argv[1] == pie::wasm::kCompileCommand) {
    return pie::wasm::CompileMain({argv + 2, argv + argc});
  }

  // Arguments after -- belong to the inferlet.
  std::vector<std::string> ours(argv + 1, argv + argc), theirs;
  auto dashes = std::find(ours.begin(), ours.end(), "--");
  if (dashes != ours.end()) {
    theirs.assign(dashes + 1, ours.end());
    ours.erase(dashes, ours.end());
  }

  CLI::App app(kAbout, "pie");
  app.set_version_flag("--version", pie::cli::VersionText());
  app.require_subcommand(0, 1);
  app.formatter(std::make_shared<ShortFormatter>());
  app.footer("`pie COMMAND --help` explains a command and shows examples.");
  app.add_subcommand("new", "Create an inferlet in Rust, Python, TypeScript, JavaScript or C++.");
  app.add_subcommand("build", "Build an inferlet into a component.");
  pie::cli::TestOptions test;
  CLI::App* test_command = app.add_subcommand(
      "test",
      "Build an inferlet and run its tests on a scripted model, without weights.\n\n"
      "  pie test my-app                        run the tests in my-app/tests/*.toml\n"
      "  pie test my-app --only greeting        run those with \"greeting\" in their names\n"
      "  pie test my-app --record hi -- --prompt hi   record what a real model does as a test\n\n"
      "Exit codes: 0, 1 if a test failed, 130 for Ctrl-C. docs/guide/testing-inferlets.md says "
      "how to write tests.");
  pie::cli::AddTestOptions(*test_command, test);
  pie::cli::RunOptions run;
  int port = 0;
  CLI::App* run_command = AddRun(app, run, port);
  std::function<int()> chosen;
  pie::cli::AddServerCommands(app, chosen);
  ModelCommands models;
  AddModel(app, models);
  CLI::App* doctor =
      app.add_subcommand("doctor", "Check this installation and print how to fix each problem.");
  CLI::App* setup = app.add_subcommand(
      "setup", "Install what building inferlets needs, and the default model, for this user.");
  try {
    std::reverse(ours.begin(), ours.end());
    app.parse(ours);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  run.arguments = theirs;
  if (*run_command) return pie::cli::Run(run);
  test.arguments = theirs;
  if (*test_command) return pie::cli::Test(test);
  if (*models.list) return pie::cli::ListModels();
  if (*models.download) return pie::cli::DownloadModelCommand(models.name);
  if (*models.remove) return pie::cli::RemoveModelCommand(models.name);
  if (chosen) return chosen();
  if (*setup) return pie::cli::ExecSetup();
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
