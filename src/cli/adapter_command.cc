#include "cli/adapter_command.h"

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
#include "base/whole_file.h"
#include "cli/config.h"
#include "cli/stored_command.h"
#include "cli/terminal.h"
#include "host/adapter_store.h"
#include "model/adapter/peft.h"
#include "model/limits.h"

namespace pie::cli {
namespace {

namespace fs = std::filesystem;
using host::AdapterStore;

using Arguments = StoredArguments;

constexpr const char* kName = "the adapter's name";

// The adapter folder and the limits of the config.
struct Place {
  Config config;
  AdapterStore store;

  explicit Place(Config read)
      : config(std::move(read)), store(config.adapter_root, config.limits) {}
};

Result<std::unique_ptr<Place>> OpenPlace(const Arguments& arguments) {
  return std::make_unique<Place>(PIE_TRY(ReadConfig(arguments.config)));
}

nlohmann::json ToJson(const AdapterStore::Entry& entry) {
  if (!entry.problem.empty()) return {{"path", entry.path}, {"problem", entry.problem}};
  nlohmann::json shown = {{"user", OneLine(entry.user)}, {"model", OneLine(entry.model)},
                          {"name", OneLine(entry.name)}, {"rank", entry.rank},
                          {"tensors", entry.tensors},    {"bytes", entry.bytes},
                          {"path", entry.path}};
  if (entry.zo.population > 0) {
    shown["zo"] = {{"population_size", entry.zo.population},
                   {"mu_fraction", entry.zo.mu_fraction},
                   {"sigma", entry.zo.sigma},
                   {"generations", entry.zo.generations}};
  }
  return shown;
}

Result<AdapterStore::Entry> Find(const Place& place, const Arguments& arguments) {
  for (AdapterStore::Entry& entry : place.store.List()) {
    if (entry.problem.empty() && entry.user == arguments.user && entry.model == arguments.model &&
        entry.name == arguments.name) {
      return std::move(entry);
    }
  }
  return Fail(Code::kNotFound, "no adapter of user {} on model {} is named '{}'", arguments.user,
              arguments.model, arguments.name);
}

Status List(const Arguments& arguments) {
  const auto place = PIE_TRY(OpenPlace(arguments));
  std::vector<AdapterStore::Entry> entries = place->store.List();
  if (!arguments.user.empty()) {
    std::erase_if(entries, [&](const auto& entry) { return entry.user != arguments.user; });
  }
  std::ranges::sort(
      entries, {}, [](const auto& entry) { return std::tie(entry.user, entry.model, entry.name); });
  if (arguments.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& entry : entries) list.push_back(ToJson(entry));
    fmt::print("{}\n", list.dump(2));
    return {};
  }
  if (entries.empty()) {
    fmt::print(
        "no adapters yet; inferlets make them with Adapter.create, and `pie adapter import` "
        "reads them\n");
  }
  for (const auto& entry : entries) {
    if (!entry.problem.empty()) {
      fmt::print("{}: {}\n", entry.path, entry.problem);
      continue;
    }
    fmt::print(
        "{:<32} rank {:>3} {:>8.1f} MiB  {} on {}{}\n", OneLine(entry.name), entry.rank,
        static_cast<double>(entry.bytes) / (1 << 20), OneLine(entry.user), OneLine(entry.model),
        entry.zo.generations > 0 ? fmt::format(", tuned for {} generations", entry.zo.generations)
                                 : "");
  }
  return {};
}

Status Info(const Arguments& arguments) {
  const auto place = PIE_TRY(OpenPlace(arguments));
  fmt::print("{}\n", ToJson(PIE_TRY(Find(*place, arguments))).dump(2));
  return {};
}

Status Delete(const Arguments& arguments) {
  const auto place = PIE_TRY(OpenPlace(arguments));
  return place->store.Delete({arguments.user, arguments.model, arguments.name});
}

Status Import(const Arguments& arguments) {
  const auto place = PIE_TRY(OpenPlace(arguments));
  const fs::path folder(arguments.path);
  const std::string config =
      PIE_TRY(ReadWhole((folder / kPeftConfigFile).string(), limits::kConfigBytes));
  const std::string tensors =
      PIE_TRY(ReadWhole((folder / kPeftTensorFile).string(), limits::kAdapterFileBytes));
  PIE_RETURN_IF_ERROR(
      place->store.Import({arguments.user, arguments.model, arguments.name}, config, tensors));
  fmt::print("'{}' of {} on {}: {:.1f} MiB\n", OneLine(arguments.name), OneLine(arguments.user),
             OneLine(arguments.model), static_cast<double>(tensors.size()) / (1 << 20));
  return {};
}

Status Export(const Arguments& arguments) {
  const auto place = PIE_TRY(OpenPlace(arguments));
  const auto entry = PIE_TRY(Find(*place, arguments));
  const auto files = PIE_TRY(AdapterStore::ToPeft(entry.path));
  const fs::path folder(arguments.path);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Fail(Code::kInternal, "{}: {}", folder.string(), error.message());
  PIE_RETURN_IF_ERROR(WriteWhole(folder / kPeftTensorFile, files.tensors));
  PIE_RETURN_IF_ERROR(WriteWhole(folder / kPeftConfigFile, files.config));
  fmt::print("{}: rank {}, {:.1f} MiB\n", arguments.path, entry.rank,
             static_cast<double>(files.tensors.size()) / (1 << 20));
  return {};
}

}  // namespace

void AddAdapterCommands(CLI::App& command, std::function<int()>& chosen) {
  command.require_subcommand(1);
  const auto add = [&](const char* name, const char* about, Status (*run)(const Arguments&)) {
    return AddStored(command, chosen, name, about, run);
  };
  const auto [list, listed] = add("list", "List the adapters.", List);
  list->add_flag("--json", listed->json, "print JSON, with sizes in bytes");
  list->add_option("--user", listed->user, "list only the adapters of this user");
  const auto [info, shown] = add("info", "Print the properties of an adapter, as JSON.", Info);
  AddWhose(*info, *shown, kName);
  const auto [remove, removed] = add("delete", "Delete an adapter.", Delete);
  AddWhose(*remove, *removed, kName);
  const auto [in, imported] = add(
      "import", "Read a folder of the PEFT package. An adapter of that name is replaced.", Import);
  AddWhose(*in, *imported, kName);
  in->add_option("folder", imported->path,
                 "a folder with adapter_config.json and adapter_model.safetensors")
      ->required();
  const auto [out, exported] =
      add("export", "Write an adapter as a folder of the PEFT package.", Export);
  AddWhose(*out, *exported, kName);
  out->add_option("folder", exported->path, "the folder to write; its files are replaced")
      ->required();
}

}  // namespace pie::cli
