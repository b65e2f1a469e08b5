// Programs: loads programs of the registry into the engine on first use. Thread-safe. Load and
// Install read files, so neither the IO thread nor a thread that runs guests may call them; either
// may call Loaded. Where compiling is allowed they take up to minutes: only threads of the engine's
// `compile_work` may do that. Service::Run calls them first without, then with a compiler.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/engine.h"
#include "server/registry.h"

namespace pie::server {

class Programs {
 public:
  Programs(host::Engine& engine, Registry& registry, size_t most_code_bytes)
      : engine_(engine), registry_(registry), most_code_bytes_(most_code_bytes) {}

  // Returns the id of `name` or `name@version` if it was looked up within the last second. Older
  // lookups do not count, because other processes write to the registry too.
  std::optional<std::string> Loaded(std::string_view program);
  using Compiling = host::Compiling;
  // Looks the program up and loads it if needed. Returns its id, or nothing if the program must be
  // compiled and compiling is not allowed.
  Result<std::optional<std::string>> Load(std::string_view program, Compiling compiling);
  // Compiles the component, which also validates it, then stores it in the registry. Returns false
  // if it must be compiled and compiling is not allowed.
  Result<bool> Install(std::string_view manifest, std::string_view component, std::string_view user,
                       bool overwrite, bool admin, Compiling compiling);
  Registry& registry() { return registry_; }

  using Time = std::chrono::steady_clock::time_point;
  struct Code {
    std::string hash;
    size_t bytes;  // of compiled code
    Time used;
  };
  using Codes = std::map<std::string, Code, std::less<>>;  // by name@version
  // Takes out the programs that leave memory: the least recently used ones, while there are too
  // many or their code takes too much. A program that was used within a minute stays, because a
  // launch may be about to use it.
  static std::vector<std::string> TakeUnused(Codes& loaded, size_t most_bytes, Time now);

 private:
  bool IsLoaded(const InstalledProgram& program);  // and notes that it is used
  void NoteLoaded(const std::string& id, const std::string& hash, size_t bytes);
  // The thread that compiles a component for a launch holds its lock, so that the component is
  // compiled once.
  std::shared_ptr<std::mutex> LockOf(const std::string& hash);

  struct Known {
    std::string id;
    Time looked_up;
  };
  host::Engine& engine_;
  Registry& registry_;
  const size_t most_code_bytes_;
  std::mutex installing_;  // held from the last check to the end of an installation
  std::mutex mutex_;
  Codes loaded_;
  std::map<std::string, std::weak_ptr<std::mutex>, std::less<>> locks_;  // by hash of component
  std::map<std::string, Known, std::less<>> known_;
};

}  // namespace pie::server
