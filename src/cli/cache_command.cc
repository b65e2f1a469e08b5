#include "cli/cache_command.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/config.h"
#include "cli/terminal.h"

namespace pie::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kDefaultDays = 30;
constexpr int64_t kDaySeconds = 24 * 60 * 60;
constexpr int kUseDepth = 2;  // files deeper inside an entry do not show when it was used

// A kind of things in the cache. Its name is that of a folder, or the beginning of several.
struct Kind {
  std::string_view name;
  std::string_view what;
  bool one_by_one = false;  // each thing inside the folder is an entry of its own
  bool kept = false;        // never pruned
};

constexpr std::array kKinds = {
    Kind{"models", "models; remove one with `pie model remove`", true, true},
    Kind{"locks", "locks of running builds", false, true},
    Kind{"code", "inferlets compiled for this machine", true},
    Kind{"guests", "inferlets of a checkout, as components", true},
    Kind{"cargo", "what cargo built for a checkout or an inferlet", true},
    Kind{"installed", "tools of an installation (`pie setup`)", true},
    Kind{"venv", "Python packages for building inferlets"},
    Kind{"js", "npm packages for building inferlets"},
    Kind{"client-js", "npm packages of the JavaScript client"},
    Kind{"rustup", "a Rust toolchain"},
    Kind{"cuda", "the CUDA compiler"},
};

const Kind& KindOf(std::string_view name) {
  static constexpr Kind kOther{"other", "what other tools of the project keep"};
  const Kind* best = &kOther;
  size_t length = 0;
  for (const Kind& kind : kKinds) {
    const bool matches = name == kind.name || name.starts_with(fmt::format("{}-", kind.name));
    if (matches && kind.name.size() > length) {
      best = &kind;
      length = kind.name.size();
    }
  }
  return *best;
}

struct Entry {
  const Kind* kind;
  fs::path path;
  uint64_t bytes = 0;
  int64_t used_at = 0;  // seconds since 1970
};

// Adds the size of a file or a folder, and finds when one of its files was last written. Whatever
// uses an entry sets the time of a file in it: times of access are kept by few file systems, and
// backups change them. Links are not followed. The times of folders say nothing.
void Measure(const fs::path& path, int depth, Entry& entry) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) return;
  if (!S_ISDIR(status.st_mode)) {
    entry.bytes += static_cast<uint64_t>(status.st_blocks) * 512;
    if (depth <= kUseDepth) {
      entry.used_at = std::max<int64_t>(entry.used_at, status.st_mtime);
    }
    return;
  }
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    Measure(at->path(), depth + 1, entry);
  }
}

Entry EntryAt(const Kind& kind, const fs::path& path) {
  Entry entry{.kind = &kind, .path = path};
  Measure(path, 0, entry);
  return entry;
}

std::vector<Entry> Entries() {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(CacheDir(), error), end; !error && at != end;
       at.increment(error)) {
    const Kind& kind = KindOf(at->path().filename().string());
    std::error_code ignored;
    if (!kind.one_by_one || !at->is_directory(ignored)) {
      entries.push_back(EntryAt(kind, at->path()));
      continue;
    }
    for (const auto& inside : fs::directory_iterator(at->path(), ignored)) {
      entries.push_back(EntryAt(kind, inside.path()));
    }
  }
  return entries;
}

int64_t Now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

std::string Size(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KB", "MB", "GB", "TB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  for (; size >= 1000 && unit + 1 < kUnits.size(); ++unit) size /= 1000;
  return fmt::format("{:.{}f} {}", size, unit == 0 || size >= 100 ? 0 : 1, kUnits[unit]);
}

struct Sum {
  const Kind* kind;
  size_t count = 0;
  uint64_t bytes = 0;
  int64_t used_at = 0;
};

std::vector<Sum> SumsOf(const std::vector<Entry>& entries) {
  std::vector<Sum> sums;
  for (const Entry& entry : entries) {
    auto sum = std::ranges::find(sums, entry.kind, &Sum::kind);
    if (sum == sums.end()) sum = sums.insert(sum, Sum{.kind = entry.kind});
    ++sum->count;
    sum->bytes += entry.bytes;
    sum->used_at = std::max(sum->used_at, entry.used_at);
  }
  std::ranges::sort(sums, std::greater(), &Sum::bytes);
  return sums;
}

int List(bool json) {
  const std::vector<Sum> sums = SumsOf(Entries());
  if (json) {
    auto list = nlohmann::json::array();
    for (const Sum& sum : sums) {
      list.push_back({{"kind", sum.kind->name},
                      {"entries", sum.count},
                      {"bytes", sum.bytes},
                      {"used_at", sum.used_at}});
    }
    fmt::print("{}\n", list.dump(2));
    return 0;
  }
  uint64_t total = 0;
  for (const Sum& sum : sums) {
    const int64_t days = std::max<int64_t>(Now() - sum.used_at, 0) / kDaySeconds;
    fmt::print("{:>9}  {:<10} {:>6}  {:<52} {}\n", Size(sum.bytes), sum.kind->name, sum.count,
               sum.kind->what, days == 0 ? "used today" : fmt::format("used {} days ago", days));
    total += sum.bytes;
  }
  fmt::print("{:>9}  in {}\n", Size(total), CacheDir());
  return 0;
}

int Prune(int days, bool dry_run) {
  const int64_t before = Now() - days * kDaySeconds;
  uint64_t freed = 0;
  size_t count = 0, failures = 0;
  for (const Entry& entry : Entries()) {
    if (entry.kind->kept || entry.used_at > before) continue;
    if (dry_run) fmt::print("{:>9}  {}\n", Size(entry.bytes), entry.path.string());
    std::error_code error;
    if (!dry_run) fs::remove_all(entry.path, error);
    if (error) {
      ReportError(fmt::format("cannot delete {}: {}", entry.path.string(), error.message()));
      ++failures;
      continue;
    }
    ++count;
    freed += entry.bytes;
  }
  fmt::print("{} {} in {} entries that were not used for {} days\n",
             dry_run ? "would free" : "freed", Size(freed), count, days);
  return failures == 0 ? 0 : 1;
}

}  // namespace

void AddCacheCommands(CLI::App& cache, std::function<int()>& chosen) {
  cache.require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  CLI::App* list = cache.add_subcommand("list", "List the kinds of entries with their sizes.");
  list->add_flag("--json", *json, "print JSON");
  list->callback([&chosen, json] { chosen = [json] { return List(*json); }; });

  auto days = std::make_shared<int>(kDefaultDays);
  auto dry_run = std::make_shared<bool>(false);
  CLI::App* prune =
      cache.add_subcommand("prune", "Delete entries that were not used for some days.");
  prune
      ->add_option("--days", *days,
                   "delete entries that were not used for this many days (default: 30)")
      ->check(CLI::Range(0, 36500));
  prune->add_flag("--dry-run", *dry_run,
                  "list the entries that would be deleted, and delete nothing");
  prune->callback(
      [&chosen, days, dry_run] { chosen = [days, dry_run] { return Prune(*days, *dry_run); }; });
}

}  // namespace pie::cli
