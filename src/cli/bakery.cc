#include "cli/bakery.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "cli/terminal.h"

namespace pie::cli {
namespace {

// The folder of this program; empty if the system does not tell.
std::filesystem::path OwnFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

// Replaces this process. Returns only on failure, with the exit code.
int Exec(std::string program, std::vector<std::string> arguments) {
  std::vector<char*> argv{program.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return ReportError(fmt::format("cannot start {}: {}", program, std::strerror(errno)));
}

}  // namespace

std::string FindBakery() {
  const auto beside = OwnFolder() / "bakery";
  if (access(beside.c_str(), X_OK) == 0) return beside;
  const char* path = std::getenv("PATH");
  std::stringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    auto candidate = std::filesystem::path(folder) / "bakery";
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

int ExecBakery(const std::vector<std::string>& arguments) {
  std::string bakery = FindBakery();
  if (bakery.empty()) {
    return ReportError(
        "bakery, which creates and builds inferlets, is not installed: run `pie setup`");
  }
  setenv("BAKERY_CALLED_BY", "pie", 1);  // makes its help say `pie new` instead of `bakery new`
  return Exec(std::move(bakery), arguments);
}

int ExecSetup() {
  // In an installation, then in a checkout, whose programs are in build/bin.
  const auto root = OwnFolder().parent_path();
  for (const auto& script :
       {root / "share/pie/scripts/setup.sh", root.parent_path() / "scripts/setup.sh"}) {
    if (access(script.c_str(), X_OK) == 0) return Exec(script, {});
  }
  return ReportError(
      "setup.sh is missing: this program is part of neither an installation nor a checkout");
}

int RunBakery(const std::vector<std::string>& arguments) {
  const pid_t child = fork();
  if (child < 0) return ReportError(fmt::format("cannot start bakery: {}", std::strerror(errno)));
  if (child == 0) _exit(ExecBakery(arguments));
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace pie::cli
