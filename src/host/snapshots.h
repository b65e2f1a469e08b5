// Snapshots: saved contexts, by (user, model, name). With a folder, they are files, which outlive
// the engine; without one, they are kept in memory with their pages. Any thread may use it.
//
// Save returns at once. Threads of this class write the file, and ask the step thread for a few
// pages at a time. The snapshot holds the context as it was at the call. Open, Take and Delete use
// the disk themselves, so a thread that runs guests must not call them. A context that was opened
// from a file has no pages until a pass needs them.
//
// The file of a context with tokens of an adapter names the adapter and the digest of its weights.
// It opens where the user has an adapter of that name with these weights.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/work_queue.h"
#include "host/adapters.h"
#include "host/context.h"
#include "host/limits.h"
#include "host/model_ref.h"
#include "host/pending.h"
#include "host/snapshot_store.h"

namespace pie::host {

// A save under way; its result is the snapshot's name.
using Saving = Pending<std::string>;

class Snapshots {
 public:
  // Keeps snapshots in memory.
  explicit Snapshots(const Limits& limits) : limits_(limits) {}
  // Keeps snapshots as files below `folder`. `adapters` are those of the same models, and outlive
  // this object; without them, contexts with tokens of adapters are not saved.
  Snapshots(const Limits& limits, const std::string& folder, std::vector<ModelRef> models,
            Adapters* adapters = nullptr);
  ~Snapshots() = default;  // saves that have not begun fail

  // Saves the context under a name. An older snapshot of that name is replaced when the new one is
  // complete. In memory, the Saving has ended when this function returns.
  Result<std::shared_ptr<Saving>> Save(std::string_view user, std::string_view name,
                                       const Context& context);
  // Saves the context under a fresh name.
  Result<std::shared_ptr<Saving>> SaveUnnamed(std::string_view user, const Context& context);
  // `salt` is the salt of the user's KV pages (Engine::SaltOf).
  Result<std::unique_ptr<Context>> Open(std::string_view user, uint32_t model,
                                        std::string_view name, const CacheSalt& salt = {});
  Result<std::unique_ptr<Context>> Take(std::string_view user, uint32_t model,
                                        std::string_view name, const CacheSalt& salt = {});
  Status Delete(std::string_view user, uint32_t model, std::string_view name);

  struct Listed {
    std::string name;
    std::string model;  // empty for a snapshot in memory, as are the fields below
    uint32_t tokens = 0;
    uint64_t bytes = 0;
    int64_t saved_at = 0;  // seconds since 1970
  };
  // Returns at most `most` of the user's snapshots. Reads files.
  std::vector<Listed> List(std::string_view user, size_t most) const;

  size_t size() const;                              // the number of snapshots in memory
  uint64_t saved() const { return saved_.load(); }  // how many files this engine has saved

 private:
  using Key = std::tuple<std::string, uint32_t, std::string>;
  Status Keep(std::string_view user, std::string_view name, const Context& context);
  Result<std::unique_ptr<Context>> Remove(const Key& key);
  SnapshotStore::Key FileKey(std::string_view user, uint32_t model, std::string_view name) const {
    return {user, models_[model].name, name};
  }
  Result<std::unique_ptr<Context>> FromFile(std::shared_ptr<SnapshotFile> file, uint32_t model,
                                            const CacheSalt& salt) const;
  // The writer has done its work. Its destructor may take long.
  Result<SnapshotWriter> WriteFile(std::string_view user, const std::string& name,
                                   const Context& context) const;
  // The adapters that the rows name.
  Result<std::vector<SnapshotAdapter>> AdaptersOf(std::string_view user, uint32_t model,
                                                  const Rows& rows) const;
  // Finds the adapters of a file, and gives its rows the versions that they have now.
  Result<AdaptersByVersion> Bind(SnapshotFile& file, uint32_t model) const;

  const Limits& limits_;
  const std::optional<SnapshotStore> store_;  // none: snapshots are in memory
  const std::vector<ModelRef> models_;
  Adapters* const adapters_ = nullptr;
  mutable std::mutex mutex_;
  std::map<Key, std::unique_ptr<Context>> kept_;
  std::map<std::string, size_t, std::less<>> per_user_;
  uint64_t next_unnamed_ = 1;
  std::atomic<uint64_t> saved_ = 0;

  std::optional<WorkQueue> writers_;  // declared last: its jobs use the members above
};

}  // namespace pie::host
