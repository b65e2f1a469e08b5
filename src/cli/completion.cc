#include "cli/completion.h"

#include <fmt/format.h>

#include <vector>

#include "cli/terminal.h"

namespace pie::cli {
namespace {

struct Command {
  std::string path;   // "pie auth", "pie auth add"
  std::string words;  // subcommands and flags, separated by spaces
  std::string help;   // the first line of its help
};

std::string FirstLine(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  std::erase_if(line, [](char c) { return c == '\'' || c == '"' || c == '`' || c == '$'; });
  return line;
}

void Collect(const CLI::App& app, const std::string& path, std::vector<Command>& into) {
  Command command{path, "", FirstLine(app.get_description())};
  const auto subcommands = app.get_subcommands([](const CLI::App*) { return true; });
  auto add = [&](const std::string& word) { command.words += " " + word; };
  for (const CLI::App* sub : subcommands) add(sub->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) add("--" + name);
  }
  into.push_back(std::move(command));
  for (const CLI::App* sub : subcommands) Collect(*sub, path + " " + sub->get_name(), into);
}

// The script looks for the longest known command among the words typed so far.
std::string Bash(const std::vector<Command>& commands) {
  std::string script =
      "_pie() {\n"
      "  local path=pie word words=\n"
      "  local -A known=(\n";
  for (const Command& command : commands) {
    script += fmt::format("    ['{}']='{}'\n", command.path, command.words);
  }
  script +=
      "  )\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    [[ -n ${known[\"$path $word\"]+x} ]] && path=\"$path $word\"\n"
      "  done\n"
      "  words=${known[$path]}\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
      "  [[ ${#COMPREPLY[@]} -eq 0 ]] && COMPREPLY=($(compgen -f -- "
      "\"${COMP_WORDS[COMP_CWORD]}\"))\n"
      "}\n"
      "complete -o filenames -F _pie pie\n";
  return script;
}

std::string Zsh(const std::vector<Command>& commands) {
  return "#compdef pie\nautoload -U +X bashcompinit && bashcompinit\n" + Bash(commands);
}

std::string Fish(const std::vector<Command>& commands) {
  std::string script = "complete -c pie -f\n";
  for (const Command& command : commands) {
    if (command.path == "pie") continue;
    const size_t last = command.path.rfind(' ');
    const std::string parent = command.path.substr(0, last);
    const std::string name = command.path.substr(last + 1);
    const size_t of_parent = parent.rfind(' ');
    const std::string condition = of_parent == std::string::npos ? "__fish_use_subcommand"
                                                                 : "__fish_seen_subcommand_from " +
                                                                       parent.substr(of_parent + 1);
    script += fmt::format("complete -c pie -n '{}' -a {} -d '{}'\n", condition, name, command.help);
    size_t at = 0;
    while ((at = command.words.find(" --", at)) != std::string::npos) {
      at += 3;
      const std::string flag = command.words.substr(at, command.words.find(' ', at) - at);
      script +=
          fmt::format("complete -c pie -n '__fish_seen_subcommand_from {}' -l {} -F\n", name, flag);
    }
  }
  return script;
}

}  // namespace

Result<std::string> CompletionScript(const CLI::App& app, const std::string& shell) {
  std::vector<Command> commands;
  Collect(app, "pie", commands);
  if (shell == "bash") return Bash(commands);
  if (shell == "zsh") return Zsh(commands);
  if (shell == "fish") return Fish(commands);
  return Fail(Code::kInvalid, "unknown shell '{}'; supported: bash, zsh, fish", shell);
}

int PrintCompletion(const CLI::App& app, const std::string& shell) {
  auto script = CompletionScript(app, shell);
  if (!script) return ReportError(script.error().text);
  fmt::print("{}", *script);
  return 0;
}

}  // namespace pie::cli
