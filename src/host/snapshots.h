// Snapshots: saved contexts, by (user, model, name). In files, where they outlive the engine; or,
// without a folder, in memory with their pages. Any thread may use it.
//
// Files are written by threads of their own, which ask the step thread for some pages at a time:
// whoever saves waits for a Signal, and nobody else waits at all. What was saved is the context as
// it was at the call. A context opened from a file has no pages until a pass needs them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "host/context.h"
#include "host/limits.h"
#include "host/snapshot_store.h"
#include "wasm/signal.h"

namespace pie::host {

// A save under way.
struct Saving {
  wasm::Signal signal;  // fires when it has ended
  std::atomic<bool> ready = false;
  std::string name;
  Status result;  // once ready

  void End(Status status);
};

class Snapshots {
 public:
  struct ModelRef {
    std::string name;
    Scheduler* scheduler;
  };
  // In memory.
  explicit Snapshots(const Limits& limits) : limits_(limits) {}
  // Below `folder`.
  Snapshots(const Limits& limits, const std::string& folder, std::vector<ModelRef> models);
  ~Snapshots();  // saves that have not begun fail

  // Replaces an older snapshot of that name when all of it is there. The Saving has ended already
  // where nothing has to be waited for.
  Result<std::shared_ptr<Saving>> Save(std::string_view user, std::string_view name,
                                       const Context& context);
  // Under a fresh name.
  Result<std::shared_ptr<Saving>> SaveUnnamed(std::string_view user, const Context& context);
  // `salt` is the user's.
  Result<std::unique_ptr<Context>> Open(std::string_view user, uint32_t model,
                                        std::string_view name, const CacheSalt& salt = {});
  Result<std::unique_ptr<Context>> Take(std::string_view user, uint32_t model,
                                        std::string_view name, const CacheSalt& salt = {});
  Status Delete(std::string_view user, uint32_t model, std::string_view name);

  size_t size() const;                              // in memory
  uint64_t saved() const { return saved_.load(); }  // to files, by this engine

 private:
  using Key = std::tuple<std::string, uint32_t, std::string>;
  struct Job {
    std::string user;
    std::unique_ptr<Context> copy;
    std::shared_ptr<Saving> saving;
  };

  Status Keep(std::string_view user, std::string_view name, const Context& context);
  Result<std::unique_ptr<Context>> Remove(const Key& key);
  SnapshotStore::Key FileKey(std::string_view user, uint32_t model, std::string_view name) const {
    return {user, models_[model].name, name};
  }
  Result<std::unique_ptr<Context>> FromFile(std::shared_ptr<SnapshotFile> file, uint32_t model,
                                            const CacheSalt& salt) const;
  void WriteFiles();
  Status WriteFile(const Job& job);

  const Limits& limits_;
  const std::optional<SnapshotStore> store_;  // none: in memory
  const std::vector<ModelRef> models_;
  mutable std::mutex mutex_;
  std::map<Key, std::unique_ptr<Context>> kept_;
  std::map<std::string, size_t, std::less<>> per_user_;
  uint64_t next_unnamed_ = 1;
  std::atomic<uint64_t> saved_ = 0;

  std::deque<Job> jobs_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::vector<std::thread> writers_;  // last: they use the rest
};

}  // namespace pie::host
