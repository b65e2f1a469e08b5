// Adapters: LoRA adapters by (user, model, name), and the memory that they take.
//
// An adapter that an inferlet holds is in memory. Other adapters stay in memory while there is room
// (max_adapter_memory). When another adapter needs the room, the least recently used one is evicted
// first. One user's adapters take at most half of that memory. A version that was replaced takes
// memory as long as passes use it. With a folder, adapters are files, which outlive the engine;
// without one they are in memory for this run only, and none is evicted.
//
// A change makes a new version and never touches the old one, so passes in flight go on with the
// version that they began with. The results of Create, Load, Fork and Initialize are on the disk
// when these calls return. Updates of zeroth-order tuning are written when the last holder releases
// the adapter, when it is evicted, and when the engine stops.
//
// Any thread may use it, except that a thread that runs guests may call only NamedAdapter::current:
// the other calls use the disk and compute.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "base/work_queue.h"
#include "host/adapter_store.h"
#include "host/byte_budget.h"
#include "host/limits.h"
#include "host/model_ref.h"
#include "host/per_user.h"
#include "model/adapter/peft.h"
#include "sched/scheduler.h"

namespace pie::host {

// One version of an adapter; immutable.
struct AdapterVersion {
  uint64_t number = 0;  // unique among the versions of all adapters
  std::shared_ptr<const AdapterWeights> weights;
  // Null if the adapter has no weights and changes nothing. It stays charged while a pass uses it.
  DeviceAdapterPtr device;
  std::string digest;  // of `weights`; empty if there are none
  ZoState zo;
  Charge charge;  // for `weights`

  size_t bytes() const {
    return (weights ? weights->parameters() * sizeof(float) : 0) + (device ? device->bytes() : 0);
  }
};

class NamedAdapter {
 public:
  NamedAdapter(std::string user, uint32_t model, std::string name)
      : user_(std::move(user)), model_(model), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  uint32_t model() const { return model_; }  // index of the engine's model
  // The newest version. Fails once the adapter was destroyed.
  Result<std::shared_ptr<const AdapterVersion>> current() const;

 private:
  friend class Adapters;
  const std::string user_;
  const uint32_t model_;
  const std::string name_;
  std::mutex work_;     // held while the next version is made
  std::mutex writing_;  // held while the file is written or deleted

  mutable std::mutex mutex_;
  std::shared_ptr<const AdapterVersion> version_;
  bool destroyed_ = false;
  bool unwritten_ = false;  // the newest version is not in the file yet
  uint64_t last_use_ = 0;   // guarded by Adapters
};

struct AdapterStats {
  size_t resident = 0;
  uint64_t bytes = 0;
  uint64_t loads = 0;  // from files
  uint64_t evictions = 0;
  uint64_t updates = 0;  // of zeroth-order tuning
};

class Adapters {
 public:
  using Ptr = std::shared_ptr<NamedAdapter>;

  // Keeps adapters as files below `folder`, or in memory if it is empty.
  Adapters(const Limits& limits, const std::string& folder, std::vector<ModelRef> models);
  ~Adapters();  // writes the versions that are not on the disk yet

  // Makes an adapter without weights. Fails if the user has one of that name.
  Result<Ptr> Create(std::string_view user, uint32_t model, std::string_view name);
  // Returns null if there is no adapter of that name.
  Result<Ptr> Open(std::string_view user, uint32_t model, std::string_view name);
  Result<Ptr> Fork(const Ptr& adapter, std::string_view name);
  Status Destroy(const Ptr& adapter);
  // Replaces the weights, and resets the state of tuning.
  Status Load(const Ptr& adapter, std::string_view config, std::span<const std::byte> tensors);
  // Makes the files of an adapter. `charge` grows by their size before they are made.
  Result<PeftFiles> Save(const NamedAdapter& adapter, Charge& charge) const;

  Status Initialize(const Ptr& adapter, uint32_t rank, float alpha, const ZoState& zo);
  // Changes nothing if it ends early because `stopped` says so; it asks often.
  Status Update(const Ptr& adapter, std::span<const float> scores, std::span<const int64_t> seeds,
                float max_sigma, const std::function<bool()>& stopped = nullptr);

  // The data of a version that a snapshot's file stores.
  struct Origin {
    std::string name;    // of an adapter with these weights
    std::string digest;  // of the weights
  };
  // Finds the adapter of a version that tokens were computed with. Fails if no adapter of the user
  // still has these weights.
  Result<Origin> OriginOf(std::string_view user, uint32_t model, uint64_t version) const;
  // The version with these weights. Fails if the user has no adapter of that name, or if it has
  // other weights now.
  Result<std::shared_ptr<const AdapterVersion>> VersionOf(std::string_view user, uint32_t model,
                                                          const Origin& origin);

  // Called when a handle of the adapter is destroyed. A job of `work` writes the newest version, if
  // it is not on the disk yet.
  void Release(const Ptr& adapter, WorkQueue& work);

  struct Listed {
    std::string name, model;
    uint64_t bytes = 0;
    bool resident = false;  // in memory
  };
  // Returns at most `most` of the user's adapters. Reads files.
  std::vector<Listed> List(std::string_view user, size_t most) const;
  // Returns the names of the user's adapters of a model, in order. Reads files.
  std::vector<std::string> NamesOf(std::string_view user, uint32_t model) const;
  AdapterStats stats() const;

 private:
  using Key = std::tuple<std::string, uint32_t, std::string>;

  const AdapterShape& ShapeOf(uint32_t model) const {
    return models_[model].scheduler->info().adapters;
  }
  AdapterStore::Key FileKey(const NamedAdapter& adapter) const {
    return {adapter.user_, models_[adapter.model_].name, adapter.name_};
  }
  Status CheckModel(uint32_t model) const;
  // Makes a version of these weights. The caller has taken `room` before it made them; it is fitted
  // to what they take.
  Result<std::shared_ptr<const AdapterVersion>> MakeVersion(std::string_view user, uint32_t model,
                                                            AdapterWeights weights, ZoState zo,
                                                            Charge room);
  // Makes `version` the adapter's newest. With `write`, also writes it to the disk.
  Status Install(const Ptr& adapter, std::shared_ptr<const AdapterVersion> version, bool write);
  Status Write(NamedAdapter& adapter) const;
  Result<Ptr> Add(std::string_view user, uint32_t model, std::string_view name,
                  std::shared_ptr<const AdapterVersion> version);
  // Notes the name of an adapter that has this version, if none is noted. With mutex_ held.
  void NoteName(const AdapterVersion& version, const std::string& name);
  // Charges `bytes` to the user. Evicts adapters until they fit.
  Result<Charge> TakeRoom(std::string_view user, size_t bytes);
  Result<Charge> TakeRoomFor(std::string_view user, uint64_t parameters) {
    return TakeRoom(user, parameters * sizeof(float));
  }
  // Makes a charge of the user grow or shrink to `bytes`.
  Status Resize(std::string_view user, Charge& charge, size_t bytes);

  const Limits& limits_;
  const std::optional<AdapterStore> store_;  // none: adapters are in memory
  const std::vector<ModelRef> models_;
  std::atomic<uint64_t> next_version_ = 1;
  std::atomic<uint64_t> loads_ = 0, evictions_ = 0, updates_ = 0;
  const std::shared_ptr<ByteBudget> memory_;  // for the adapters of all users
  PerUser<ByteBudget> memory_of_user_;
  // Held while an adapter of the user is created or read, so that no adapter is loaded twice.
  PerUser<std::mutex> opening_;
  mutable std::mutex mutex_;
  std::map<Key, Ptr> loaded_;
  // Versions by number, as long as something could compute with them. An adapter that is evicted
  // and read again gets another number, but the tokens of a context keep the old one.
  struct Made {
    Origin origin;
    std::weak_ptr<const DeviceAdapter> device;
  };
  std::map<uint64_t, Made> made_;
  uint64_t uses_ = 0;
};

// A guest's handle of an adapter.
class AdapterHandle {
 public:
  AdapterHandle(Adapters::Ptr adapter, Adapters& adapters, WorkQueue& work)
      : adapter_(std::move(adapter)), adapters_(adapters), work_(work) {}
  ~AdapterHandle() { adapters_.Release(adapter_, work_); }
  AdapterHandle(const AdapterHandle&) = delete;
  AdapterHandle& operator=(const AdapterHandle&) = delete;
  const Adapters::Ptr& adapter() const { return adapter_; }

 private:
  const Adapters::Ptr adapter_;
  Adapters& adapters_;
  WorkQueue& work_;
};

}  // namespace pie::host
