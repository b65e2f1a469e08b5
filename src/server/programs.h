// Programs: loads programs of the registry into the engine on first use. Thread-safe. Load and
// Install read files and may compile for seconds, so neither the IO thread nor a thread that runs
// guests may call them; either may call Loaded.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "host/engine.h"
#include "server/registry.h"

namespace pie::server {

class Programs {
 public:
  Programs(host::Engine& engine, Registry& registry) : engine_(engine), registry_(registry) {}

  // Returns the id of `name` or `name@version` if it was looked up within the last second. Older
  // lookups do not count, because other processes write to the registry too.
  std::optional<std::string> Loaded(std::string_view program);
  // Looks the program up and loads it if needed. Returns its id. A program that is loaded does not
  // wait for the compilation of another one.
  Result<std::string> Load(std::string_view program);
  // Compiles the component, which also validates it, then stores it in the registry.
  Status Install(std::string_view manifest, std::string_view component, std::string_view user,
                 bool overwrite, bool admin);
  Registry& registry() { return registry_; }

 private:
  bool IsLoaded(const InstalledProgram& program);  // and notes that it is used
  void NoteLoaded(const std::string& id, const std::string& hash);
  // The thread that compiles a program holds its lock. Other programs are not affected.
  std::shared_ptr<std::mutex> LockOf(const std::string& name);

  using Time = std::chrono::steady_clock::time_point;
  struct Known {
    std::string id;
    Time looked_up;
  };
  host::Engine& engine_;
  Registry& registry_;
  std::mutex mutex_;
  struct Code {
    std::string hash;
    Time used;
  };
  std::map<std::string, Code, std::less<>> loaded_;                      // by name@version
  std::map<std::string, std::weak_ptr<std::mutex>, std::less<>> locks_;  // by name
  std::map<std::string, Known, std::less<>> known_;
};

}  // namespace pie::server
