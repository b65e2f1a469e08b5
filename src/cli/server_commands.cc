#include "cli/server_commands.h"

#include <memory>
#include <string>

#include "cli/auth_command.h"
#include "cli/completion.h"
#include "cli/config_command.h"
#include "cli/inferlet_command.h"
#include "cli/serve.h"
#include "cli/snapshot_command.h"

namespace pie::cli {
namespace {

// Values of a command's options live as long as its callback.
struct Words {
  std::string first, second, third;
  bool flag = false;
};

// Adds a command that does `act` with its words.
template <class Act>
CLI::App* Add(CLI::App& parent, const char* name, const char* help, std::function<int()>& chosen,
              const std::shared_ptr<Words>& words, Act act) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->callback([&chosen, words, act] { chosen = [words, act] { return act(*words); }; });
  return command;
}

void AddServe(CLI::App& app, std::function<int()>& chosen) {
  auto serve = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand(
      "serve",
      "Run the engine behind a port, for clients to launch inferlets on.\n\n"
      "  pie serve                         on ws://127.0.0.1:8080\n"
      "  pie serve --dummy --port 9000     without a model: gibberish, at once\n"
      "  pie serve --monitor               with a live view of what runs\n\n"
      "Ctrl-C (or SIGTERM) drains: what runs may end. A second one leaves at once.");
  command->add_option("-c,--config", serve->config,
                      "config file (default: ~/.pie/config.toml, if any)");
  command->add_option("--host", serve->host, "address to listen on (default: 127.0.0.1)");
  command->add_option("--port", serve->port, "port to listen on (default: 8080; 0 = any)");
  command->add_flag("--no-auth", serve->no_auth, "believe clients who they are");
  command->add_flag("--debug", serve->debug, "log every launch and every client");
  command->add_flag("-m,--monitor", serve->monitor,
                    "a live view: instances, batch, pages, tokens/s");
  command->add_flag("--no-snapshot", serve->no_snapshot,
                    "keep saved contexts in memory, for this run only");
  command->add_flag("--dummy", serve->dummy, "run on the dummy model: no weights, gibberish");
  command->callback([&chosen, serve] { chosen = [serve] { return Serve(*serve); }; });
}

void AddAuth(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* auth =
      app.add_subcommand("auth",
                         "Who may connect to a server that asks (auth.enabled = true).\n\n"
                         "  pie auth add ada ~/.ssh/id_ed25519.pub    a key, PEM or OpenSSH\n"
                         "  pie auth list\n"
                         "  pie auth remove ada                       with all her keys");
  auth->require_subcommand(1);
  auto words = std::make_shared<Words>();
  CLI::App* add = Add(*auth, "add", "Let a user in with this public key.", chosen, words,
                      [](Words& w) { return AddKey(w.first, w.second, w.third); });
  add->add_option("user", words->first, "the user's name")->required();
  add->add_option("key", words->second, "file of the public key; - for standard input")->required();
  add->add_option("--name", words->third, "what to call the key (default: its fingerprint)");
  words = std::make_shared<Words>();
  CLI::App* remove = Add(*auth, "remove", "Take a user's key away, or all of them.", chosen, words,
                         [](Words& w) { return RemoveKey(w.first, w.second); });
  remove->add_option("user", words->first, "the user's name")->required();
  remove->add_option("--name", words->second, "only this key");
  Add(*auth, "list", "Users and their keys.", chosen, std::make_shared<Words>(),
      [](Words&) { return ListKeys(); });
}

void AddInferlets(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* inferlet = app.add_subcommand(
      "inferlet",
      "The programs installed on this machine, for pie serve and pie run NAME.\n\n"
      "  pie inferlet add my-app.wasm -m my-app/Pie.toml\n"
      "  pie inferlet list\n"
      "  pie inferlet info my-app\n"
      "  pie inferlet remove my-app@0.1.0");
  inferlet->require_subcommand(1);
  Add(*inferlet, "list", "What is installed.", chosen, std::make_shared<Words>(),
      [](Words&) { return ListInferlets(); });
  auto words = std::make_shared<Words>();
  Add(*inferlet, "info", "One program: its parameters, its size, its hash.", chosen, words,
      [](Words& w) { return ShowInferlet(w.first); })
      ->add_option("program", words->first, "NAME[@VERSION]")
      ->required();
  words = std::make_shared<Words>();
  CLI::App* add = Add(*inferlet, "add", "Install a component.", chosen, words,
                      [](Words& w) { return AddInferlet(w.first, w.second, w.flag); });
  add->add_option("component", words->first, "as `pie build` makes it")->required();
  add->add_option("-m,--manifest", words->second, "its Pie.toml (default: beside the component)");
  add->add_flag("--force", words->flag, "replace that version if it is there");
  words = std::make_shared<Words>();
  Add(*inferlet, "remove", "Remove one version, or all of them.", chosen, words,
      [](Words& w) { return RemoveInferlet(w.first); })
      ->add_option("program", words->first, "NAME[@VERSION]")
      ->required();
}

void AddConfig(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* config =
      app.add_subcommand("config",
                         "The config file, ~/.pie/config.toml ($PIE_HOME).\n\n"
                         "  pie config init                       write one, with comments\n"
                         "  pie config set server.port 9000\n"
                         "  pie config set model.0.hf_repo /models/smol.gguf\n"
                         "  pie config check");
  config->require_subcommand(1);
  auto words = std::make_shared<Words>();
  Add(*config, "init", "Write a config file to begin with.", chosen, words, [](Words& w) {
    return InitConfig(w.flag);
  })->add_flag("--force", words->flag, "replace the one that is there");
  words = std::make_shared<Words>();
  Add(*config, "show", "Print it.", chosen, words, [](Words& w) {
    return ShowConfig(w.first);
  })->add_option("-c,--config", words->first, "another file");
  words = std::make_shared<Words>();
  CLI::App* set = Add(*config, "set", "Change one value; the file is checked before.", chosen,
                      words, [](Words& w) { return SetConfig(w.third, w.first, w.second); });
  set->add_option("key", words->first, "dotted: server.port, model.0.hf_repo")->required();
  set->add_option("value", words->second, "the new value")->required();
  set->add_option("-c,--config", words->third, "another file");
  words = std::make_shared<Words>();
  Add(*config, "check", "Say what is wrong with it, if anything.", chosen, words, [](Words& w) {
    return CheckConfig(w.first);
  })->add_option("config", words->first, "another file");
  words = std::make_shared<Words>();
  Add(app, "check", "Check a config file: pie check CONFIG", chosen, words, [](Words& w) {
    return CheckConfig(w.first);
  })->add_option("config", words->first, "the file (default: ~/.pie/config.toml)");
}

}  // namespace

void AddServerCommands(CLI::App& app, std::function<int()>& chosen) {
  AddServe(app, chosen);
  AddAuth(app, chosen);
  AddInferlets(app, chosen);
  AddConfig(app, chosen);
  AddSnapshotCommands(*app.add_subcommand("snapshot", kSnapshotAbout), chosen);
  CLI::App* driver = app.add_subcommand("driver", "What models can run on: pie driver list");
  driver->require_subcommand(1);
  Add(*driver, "list", "The drivers of this build.", chosen, std::make_shared<Words>(),
      [](Words&) { return ListDrivers(); });
  auto words = std::make_shared<Words>();
  Add(app, "completion",
      "Print a script that completes pie's commands in your shell.\n\n"
      "  source <(pie completion bash)\n"
      "  pie completion zsh > \"${fpath[1]}/_pie\"\n"
      "  pie completion fish > ~/.config/fish/completions/pie.fish",
      chosen, words, [&app](Words& w) { return PrintCompletion(app, w.first); })
      ->add_option("shell", words->first, "bash, zsh or fish")
      ->required();
}

}  // namespace pie::cli
