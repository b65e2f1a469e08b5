// Store: the saved sequences of a simulated world, by user and name, in memory or in files as the
// engine writes them. It knows which sequences must exist, and their expected contents.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "base/result.h"
#include "host/snapshot_store.h"
#include "kv/stored_kv.h"
#include "sched/swap.h"

namespace pie::sim {

using Slots = std::vector<DummySlot>;

class Store {
 public:
  Store(const BackendInfo& info, bool in_files);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // The adapter of each slot; 0: the model alone. Empty: none has one.
  using SlotAdapters = std::vector<uint32_t>;
  struct Saved {
    std::shared_ptr<const StoredKv> kv;
    Slots slots;  // what it must hold
    SlotAdapters adapters;
  };

  // An error says that the content differs from the expected one. Nullopt: there is none of that
  // name, and there should be none.
  Result<std::optional<Saved>> Open(uint32_t user, const std::string& name);
  Result<std::optional<Saved>> Take(uint32_t user, const std::string& name);
  Status Delete(uint32_t user, const std::string& name);
  // `killed`: the writer is stopped before its end, and the old snapshot stays.
  Status Save(uint32_t user, const std::string& name, KvContent content, Slots slots,
              SlotAdapters adapters, bool killed);

  uint64_t saved() const { return saved_; }
  uint64_t opened() const { return opened_; }
  uint64_t opened_adapted() const { return opened_adapted_; }

 private:
  using Key = std::pair<std::string, std::string>;
  struct Entry {
    std::shared_ptr<const StoredKv> kv;  // null: in a file
    Slots slots;
    SlotAdapters adapters;
  };
  Result<std::shared_ptr<const StoredKv>> FromFile(const Key& key, bool take);
  Status WriteFile(const Key& key, const KvContent& content, bool killed);
  Result<std::optional<Saved>> Find(uint32_t user, const std::string& name, bool take);

  const BackendInfo& info_;
  std::string folder_;  // empty: in memory
  host::Limits limits_;
  std::optional<host::SnapshotStore> files_;
  SwapPool memory_;
  std::map<Key, Entry> entries_;
  uint64_t saved_ = 0;
  uint64_t opened_ = 0;
  uint64_t opened_adapted_ = 0;  // of them with rows of adapters
};

}  // namespace pie::sim
