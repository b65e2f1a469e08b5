// Programs: the registry's programs in the engine, loaded when they are first asked for. Any
// thread. Load and Install may compile, so they are not for the IO thread; Loaded is.
#pragma once

#include <chrono>
#include <map>
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

  // What `name` or `name@version` means, if that was looked up within the last second: other
  // processes write to the registry too.
  std::optional<std::string> Loaded(std::string_view program);
  // The same, by looking, and loading it if need be.
  Result<std::string> Load(std::string_view program);
  // Compiles the component, which is its check, then keeps it.
  Status Install(std::string_view manifest, std::string_view component, std::string_view user,
                 bool overwrite, bool admin);
  Registry& registry() { return registry_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Known {
    std::string id;
    Time looked_up;
  };
  host::Engine& engine_;
  Registry& registry_;
  std::mutex loading_;  // one compiler at a time
  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> loaded_;  // name@version → hash
  std::map<std::string, Known, std::less<>> known_;
};

}  // namespace pie::server
