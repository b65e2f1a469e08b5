#include "cli/snapshot_command.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/one_line.h"
#include "cli/config.h"
#include "cli/stored_command.h"
#include "cli/terminal.h"
#include "host/snapshot_store.h"

namespace pie::cli {
namespace {

namespace fs = std::filesystem;
using host::SnapshotStore;

using Arguments = StoredArguments;

constexpr const char* kName = "a name that `pie snapshot list` shows";

// The snapshot folder and the limits of the config.
struct Place {
  Config config;
  SnapshotStore store;

  explicit Place(Config read)
      : config(std::move(read)), store(config.snapshot_root, config.limits) {}
};

Result<std::unique_ptr<Place>> OpenPlace(const Arguments& arguments) {
  return std::make_unique<Place>(PIE_TRY(ReadConfig(arguments.config)));
}

nlohmann::json ToJson(const SnapshotStore::Entry& entry) {
  if (!entry.problem.empty()) return {{"path", entry.path}, {"problem", entry.problem}};
  return {{"user", OneLine(entry.info.user)},
          {"model", OneLine(entry.info.model)},
          {"name", OneLine(entry.info.name)},
          {"tokens", entry.tokens},
          {"bytes", entry.bytes},
          {"saved_at", entry.info.saved_at},
          {"layout", entry.info.layout},
          {"fingerprint", entry.info.fingerprint},
          {"path", entry.path}};
}

Status List(const Arguments& arguments) {
  auto place = PIE_TRY(OpenPlace(arguments));
  std::vector<SnapshotStore::Entry> entries = place->store.List();
  if (!arguments.user.empty()) {
    std::erase_if(entries, [&](const auto& entry) { return entry.info.user != arguments.user; });
  }
  std::ranges::sort(entries, {}, [](const auto& entry) {
    return std::tie(entry.info.user, entry.info.model, entry.info.name);
  });
  if (arguments.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& entry : entries) list.push_back(ToJson(entry));
    fmt::print("{}\n", list.dump(2));
    return {};
  }
  if (entries.empty())
    fmt::print("no snapshots yet; inferlets save them with context.save(name)\n");
  for (const auto& entry : entries) {
    if (!entry.problem.empty()) {
      fmt::print("{}: {}\n", entry.path, entry.problem);
      continue;
    }
    fmt::print("{:<32} {:>8} tokens {:>8.1f} MiB  {:%F %R}  {} on {}\n", OneLine(entry.info.name),
               entry.tokens, static_cast<double>(entry.bytes) / (1 << 20),
               fmt::gmtime(static_cast<std::time_t>(entry.info.saved_at)), OneLine(entry.info.user),
               OneLine(entry.info.model));
  }
  return {};
}

Status Delete(const Arguments& arguments) {
  auto place = PIE_TRY(OpenPlace(arguments));
  return place->store.Delete({arguments.user, arguments.model, arguments.name});
}

Status CopyPages(const SnapshotFile& from, const SnapshotInfo& info, SnapshotWriter& to) {
  PIE_RETURN_IF_ERROR(to.Write(SnapshotHead(info, from.rows())));
  for (uint32_t i = 0; i < from.pages(); ++i) {
    PIE_RETURN_IF_ERROR(to.WritePage(i, PIE_TRY(from.Page(i))));
  }
  return {};
}

Status Export(const Arguments& arguments) {
  auto place = PIE_TRY(OpenPlace(arguments));
  const auto from = PIE_TRY(place->store.Open({arguments.user, arguments.model, arguments.name}));
  const fs::path path = fs::absolute(arguments.path);
  SnapshotWriter to = PIE_TRY(SnapshotWriter::Create(path.parent_path()));
  PIE_RETURN_IF_ERROR(CopyPages(*from, from->info(), to));
  PIE_RETURN_IF_ERROR(to.Sync());
  PIE_RETURN_IF_ERROR(to.Commit(path.filename()));
  fmt::print("{}: {} tokens, {:.1f} MiB\n", arguments.path, from->rows().size(),
             static_cast<double>(from->bytes()) / (1 << 20));
  return {};
}

Status Import(const Arguments& arguments) {
  auto place = PIE_TRY(OpenPlace(arguments));
  auto from = SnapshotFile::Open(arguments.path);
  if (!from) return Fail(from.error().code, "{}: {}", arguments.path, from.error().text);
  SnapshotInfo info = (*from)->info();
  if (!arguments.user.empty()) info.user = arguments.user;
  if (!arguments.model.empty()) info.model = arguments.model;
  if (!arguments.name.empty()) info.name = arguments.name;
  PIE_RETURN_IF_ERROR(host::CheckSnapshotName(info.name));
  const SnapshotStore::Key key{info.user, info.model, info.name};
  const uint64_t bytes = SnapshotBytes(info, (*from)->rows());
  SnapshotWriter to = PIE_TRY(place->store.Begin(key, bytes));
  PIE_RETURN_IF_ERROR(CopyPages(**from, info, to));
  PIE_RETURN_IF_ERROR(place->store.Commit(key, to, bytes));
  fmt::print("'{}' of {} on {}: {} tokens\n", OneLine(info.name), OneLine(info.user),
             OneLine(info.model), (*from)->rows().size());
  return {};
}

}  // namespace

void AddSnapshotCommands(CLI::App& command, std::function<int()>& chosen) {
  command.require_subcommand(1);
  const auto add = [&](const char* name, const char* about, Status (*run)(const Arguments&)) {
    return AddStored(command, chosen, name, about, run);
  };
  const auto [list, listed] = add("list", "List the snapshots.", List);
  list->add_flag("--json", listed->json,
                 "print JSON, with sizes in bytes and times in seconds since 1970");
  list->add_option("--user", listed->user, "list only the snapshots of this user");
  const auto [remove, removed] = add("delete", "Delete a snapshot.", Delete);
  AddWhose(*remove, *removed, kName);
  const auto [out, exported] =
      add("export", "Write a snapshot to one file, for import elsewhere. Every page is checked.",
          Export);
  AddWhose(*out, *exported, kName);
  out->add_option("file", exported->path, "the file to write; an existing one is replaced")
      ->required();
  const auto [in, imported] =
      add("import", "Read an exported snapshot. Every page is checked first.", Import);
  in->add_option("file", imported->path, "a file that `pie snapshot export` wrote")->required();
  in->add_option("--user", imported->user, "the user it will belong to (default: unchanged)");
  in->add_option("--model", imported->model, "the name of its model (default: unchanged)");
  in->add_option("--name", imported->name, "its new name (default: unchanged)");
}

}  // namespace pie::cli
