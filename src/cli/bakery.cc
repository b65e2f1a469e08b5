#include "cli/bakery.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "cli/terminal.h"

namespace pie::cli {

std::string FindBakery() {
  std::error_code error;
  auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    auto beside = self.parent_path() / "bakery";
    if (access(beside.c_str(), X_OK) == 0) return beside;
  }
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
        "bakery, which creates and builds inferlets, is not installed: run `make setup`");
  }
  std::vector<char*> argv{bakery.data()};
  std::vector<std::string> owned = arguments;
  for (std::string& argument : owned) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(bakery.c_str(), argv.data());
  return ReportError(fmt::format("cannot start {}: {}", bakery, std::strerror(errno)));
}

}  // namespace pie::cli
