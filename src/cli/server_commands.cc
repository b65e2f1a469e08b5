#include "cli/server_commands.h"
#include "cli/adapter_command.h"

#include <memory>
#include <string>

#include "cli/auth_command.h"
#include "cli/cache_command.h"
#include "cli/chat.h"
#include "cli/completion.h"
#include "cli/config_command.h"
#include "cli/inferlet_command.h"
#include "cli/serve.h"
#include "cli/snapshot_command.h"

namespace pie::cli {
namespace {

// The values of a command's options. They live as long as its callback.
struct Words {
  std::string first, second, third;
  bool flag = false;
};

// Adds a command that calls `act` with its values.
template <class Act>
CLI::App* Add(CLI::App& parent, const char* name, const char* help, std::function<int()>& chosen,
              const std::shared_ptr<Words>& words, Act act) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->callback([&chosen, words, act] { chosen = [words, act] { return act(*words); }; });
  return command;
}

void AddChat(CLI::App& app, std::function<int()>& chosen) {
  auto chat = std::make_shared<ChatOptions>();
  CLI::App* command =
      app.add_subcommand("chat",
                         "Talk to a model in the terminal.\n\n"
                         "  pie chat                              with the default model\n"
                         "  pie chat --system \"You are brief.\"   with a system message\n\n"
                         "Ctrl-C stops an answer, /help lists the commands, Ctrl-D leaves.");
  command->add_option("-c,--config", chat->config,
                      "config file (default: ~/.pie/config.toml, if it exists)");
  command->add_option("--model", chat->model,
                      "the model's name in the config (default: the first)");
  command->add_option("--system", chat->system, "the system message");
  command->add_option("--temperature", chat->temperature, "0 is greedy (default: 0.7)");
  command->add_flag("--speed", chat->speed, "show tokens/s after each answer");
  command->add_flag("--dummy", chat->dummy,
                    "use the dummy model: it needs no weights and writes gibberish");
  command->callback([&chosen, chat] { chosen = [chat] { return Chat(*chat); }; });
}

void AddServe(CLI::App& app, std::function<int()>& chosen) {
  auto serve = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand(
      "serve",
      "Run the engine as a server on which clients launch inferlets.\n\n"
      "  pie serve                         listen on ws://127.0.0.1:8080\n"
      "  pie serve --dummy --port 9000     without a model: gibberish, starts at once\n"
      "  pie serve --monitor               with a live view of the engine\n\n"
      "Ctrl-C (or SIGTERM) drains: the server waits for processes to end.\n"
      "A second Ctrl-C exits at once.");
  command->add_option("-c,--config", serve->config,
                      "config file (default: ~/.pie/config.toml, if it exists)");
  command->add_option("--host", serve->host, "address to listen on (default: 127.0.0.1)");
  command->add_option("--port", serve->port, "port to listen on (default: 8080; 0: any free port)");
  command->add_flag("--no-auth", serve->no_auth,
                    "turn authentication off: clients may claim any user name");
  command->add_flag("--debug", serve->debug, "also log every launch and every client");
  command->add_flag("-m,--monitor", serve->monitor,
                    "show a live view: instances, batches, pages, tokens/s");
  command->add_flag("--no-snapshot", serve->no_snapshot,
                    "keep saved contexts in memory only, until the server stops");
  command->add_flag("--dummy", serve->dummy,
                    "use the dummy model: it needs no weights and writes gibberish");
  command->callback([&chosen, serve] { chosen = [serve] { return Serve(*serve); }; });
}

void AddAuth(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* auth = app.add_subcommand(
      "auth",
      "Manage the users who may connect to a server with auth.enabled = true.\n\n"
      "  pie auth add ada ~/.ssh/id_ed25519.pub    add a key (PEM or OpenSSH)\n"
      "  pie auth list\n"
      "  pie auth remove ada                       remove a user with all keys\n"
      "  pie auth token create ada                 make an API key for HTTP");
  auth->require_subcommand(1);
  auto words = std::make_shared<Words>();
  CLI::App* add = Add(*auth, "add", "Allow a user to connect with this public key.", chosen, words,
                      [](Words& w) { return AddKey(w.first, w.second, w.third); });
  add->add_option("user", words->first, "the user's name")->required();
  add->add_option("key", words->second, "file of the public key, or - for standard input")
      ->required();
  add->add_option("--name", words->third, "name of the key (default: its fingerprint)");
  words = std::make_shared<Words>();
  CLI::App* remove = Add(*auth, "remove", "Remove a key of a user, or all of them.", chosen, words,
                         [](Words& w) { return RemoveKey(w.first, w.second); });
  remove->add_option("user", words->first, "the user's name")->required();
  remove->add_option("--name", words->second, "remove only this key");
  Add(*auth, "list", "List the users and their keys.", chosen, std::make_shared<Words>(),
      [](Words&) { return ListKeys(); });

  CLI::App* token = auth->add_subcommand(
      "token",
      "Manage the API keys of HTTP clients, such as those of /v1.\n\n"
      "  pie auth token create ada         print a new key; only its hash is stored\n"
      "  pie auth token list\n"
      "  pie auth token revoke ada");
  token->require_subcommand(1);
  words = std::make_shared<Words>();
  CLI::App* create = Add(*token, "create", "Make an API key for a user and print it.", chosen,
                         words, [](Words& w) { return CreateToken(w.first, w.second); });
  create->add_option("user", words->first, "the user on whose behalf requests are served")
      ->required();
  create->add_option("--name", words->second, "name of the token (default: the user's)");
  Add(*token, "list", "List the tokens, without their keys.", chosen, std::make_shared<Words>(),
      [](Words&) { return ListTokens(); });
  words = std::make_shared<Words>();
  Add(*token, "revoke", "Remove a token: its key is no longer accepted.", chosen, words,
      [](Words& w) { return RevokeToken(w.first); })
      ->add_option("name", words->first, "name of the token")
      ->required();
}

void AddInferlets(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* inferlet = app.add_subcommand(
      "inferlet",
      "Manage the inferlets installed on this machine, for pie serve and pie run NAME.\n\n"
      "  pie inferlet add my-app.wasm -m my-app/Pie.toml\n"
      "  pie inferlet list\n"
      "  pie inferlet info my-app\n"
      "  pie inferlet remove my-app@0.1.0");
  inferlet->require_subcommand(1);
  Add(*inferlet, "list", "List the installed inferlets.", chosen, std::make_shared<Words>(),
      [](Words&) { return ListInferlets(); });
  auto words = std::make_shared<Words>();
  Add(*inferlet, "info", "Show the parameters, size and hash of an inferlet.", chosen, words,
      [](Words& w) { return ShowInferlet(w.first); })
      ->add_option("program", words->first, "NAME[@VERSION]")
      ->required();
  words = std::make_shared<Words>();
  CLI::App* add = Add(*inferlet, "add", "Install an inferlet.", chosen, words,
                      [](Words& w) { return AddInferlet(w.first, w.second, w.flag); });
  add->add_option("component", words->first, "the component, a file that `pie build` wrote")
      ->required();
  add->add_option("-m,--manifest", words->second,
                  "its manifest (default: the Pie.toml beside the component)");
  add->add_flag("--force", words->flag, "replace the same version if it is installed");
  words = std::make_shared<Words>();
  Add(*inferlet, "remove", "Remove one version of an inferlet, or all of them.", chosen, words,
      [](Words& w) { return RemoveInferlet(w.first); })
      ->add_option("program", words->first, "NAME[@VERSION]")
      ->required();
}

void AddConfig(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* config = app.add_subcommand(
      "config",
      "Manage the config file, $PIE_HOME/config.toml (default: ~/.pie/config.toml).\n\n"
      "  pie config init                       write a file with comments\n"
      "  pie config set server.port 9000\n"
      "  pie config set model.0.hf_repo /models/smol.gguf\n"
      "  pie config check");
  config->require_subcommand(1);
  auto words = std::make_shared<Words>();
  Add(*config, "init", "Write a config file with the most important settings.", chosen, words,
      [](Words& w) { return InitConfig(w.flag); })
      ->add_flag("--force", words->flag, "replace an existing file");
  words = std::make_shared<Words>();
  Add(*config, "show", "Print the config file.", chosen, words, [](Words& w) {
    return ShowConfig(w.first);
  })->add_option("-c,--config", words->first, "config file (default: ~/.pie/config.toml)");
  words = std::make_shared<Words>();
  CLI::App* set =
      Add(*config, "set", "Change one value. The new file is checked before it is written.", chosen,
          words, [](Words& w) { return SetConfig(w.third, w.first, w.second); });
  set->add_option("key", words->first, "dotted path of the value: server.port, model.0.hf_repo")
      ->required();
  set->add_option("value", words->second, "the new value")->required();
  set->add_option("-c,--config", words->third, "config file (default: ~/.pie/config.toml)");
  words = std::make_shared<Words>();
  Add(*config, "check", "Check the config file.", chosen, words, [](Words& w) {
    return CheckConfig(w.first);
  })->add_option("config", words->first, "config file (default: ~/.pie/config.toml)");
  words = std::make_shared<Words>();
  Add(app, "check", "Check a config file: pie check CONFIG", chosen, words, [](Words& w) {
    return CheckConfig(w.first);
  })->add_option("config", words->first, "config file (default: ~/.pie/config.toml)");
}

}  // namespace

void AddServerCommands(CLI::App& app, std::function<int()>& chosen) {
  AddServe(app, chosen);
  AddChat(app, chosen);
  AddAuth(app, chosen);
  AddInferlets(app, chosen);
  AddConfig(app, chosen);
  AddSnapshotCommands(*app.add_subcommand("snapshot", kSnapshotAbout), chosen);
  AddAdapterCommands(*app.add_subcommand("adapter", kAdapterAbout), chosen);
  AddCacheCommands(*app.add_subcommand("cache", kCacheAbout), chosen);
  CLI::App* driver =
      app.add_subcommand("driver", "List the devices that models can run on: pie driver list");
  driver->require_subcommand(1);
  Add(*driver, "list", "List the drivers of this build.", chosen, std::make_shared<Words>(),
      [](Words&) { return ListDrivers(); });
  auto words = std::make_shared<Words>();
  Add(app, "completion",
      "Print a shell script that completes pie's commands.\n\n"
      "  source <(pie completion bash)\n"
      "  pie completion zsh > \"${fpath[1]}/_pie\"\n"
      "  pie completion fish > ~/.config/fish/completions/pie.fish",
      chosen, words, [&app](Words& w) { return PrintCompletion(app, w.first); })
      ->add_option("shell", words->first, "bash, zsh or fish")
      ->required();
}

}  // namespace pie::cli
