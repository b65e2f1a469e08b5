#include "base/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

namespace pie {
namespace {

// Returns the number that `text` begins with.
std::optional<uint64_t> NumberIn(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// A group without a limit has the text "max", or, in version 1, a number beyond all machines.
std::optional<uint64_t> LimitIn(const std::string& path) {
  constexpr uint64_t kNoLimit = uint64_t{1} << 60;
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const auto limit = NumberIn(line);
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

// Returns the least limit of the group `path` and its parents, or `least` if that is lower. In a
// container `path` may be that of the host, which the container does not see; the root of what it
// sees is then its own group.
uint64_t LeastOf(const std::string& folder, std::string path, const char* file, uint64_t least) {
  for (;;) {
    while (path.ends_with('/')) path.pop_back();
    const auto limit = LimitIn(folder + path + "/" + file);
    if (limit && (least == 0 || *limit < least)) least = *limit;
    if (path.empty()) return least;
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

bool ListHas(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == name) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

uint64_t LimitOfGroups(const std::string& root) {
  constexpr int kMostLines = 128;
  const std::string groups = root + "/sys/fs/cgroup";
  uint64_t least = 0;
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  for (int i = 0; i < kMostLines && std::getline(file, line); ++i) {
    // A line is `number:controllers:path`; version 2 has the number 0 and no controllers.
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      least = LeastOf(groups, path, "memory.max", least);
      least = LeastOf(groups + "/unified", path, "memory.max", least);
    } else if (ListHas(controllers, "memory")) {
      least = LeastOf(groups + "/memory", path, "memory.limit_in_bytes", least);
    }
  }
  return least;
}

uint64_t BytesOfMachine(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    constexpr std::string_view kTotal = "MemTotal:";
    if (!line.starts_with(kTotal)) continue;
    if (const auto kibibytes = NumberIn(std::string_view(line).substr(kTotal.size()))) {
      return *kibibytes << 10;
    }
  }
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

MemoryLimit ReadMemoryLimit(const std::string& root) {
  return {.machine = BytesOfMachine(root), .group = LimitOfGroups(root)};
}

}  // namespace pie
