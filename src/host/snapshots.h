// Snapshots: saved contexts, by (user, model, name). Kept in memory with their pages. Any thread
// may use it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "host/context.h"
#include "host/limits.h"

namespace pie::host {

class Snapshots {
 public:
  explicit Snapshots(const Limits& limits) : limits_(limits) {}

  // Replaces an older snapshot of that name.
  Status Save(std::string_view user, std::string_view name, const Context& context);
  // Under a fresh name.
  Result<std::string> SaveUnnamed(std::string_view user, const Context& context);
  Result<std::unique_ptr<Context>> Open(std::string_view user, uint32_t model,
                                        std::string_view name);
  Result<std::unique_ptr<Context>> Take(std::string_view user, uint32_t model,
                                        std::string_view name);
  Status Delete(std::string_view user, uint32_t model, std::string_view name);
  size_t size() const;

 private:
  using Key = std::tuple<std::string, uint32_t, std::string>;
  Result<std::unique_ptr<Context>> Remove(const Key& key);

  const Limits& limits_;
  mutable std::mutex mutex_;
  std::map<Key, std::unique_ptr<Context>> kept_;
  std::map<std::string, size_t, std::less<>> per_user_;
  uint64_t next_unnamed_ = 1;
};

}  // namespace pie::host
