#include "host/snapshots.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <utility>

#include "base/random.h"
#include "base/thread_team.h"

namespace pie::host {
namespace {

// The writers wait for the disk most of the time.
constexpr size_t kWriters = 8;
// A large context is written by several threads, one for this much of it.
constexpr size_t kBytesPerThread = size_t{64} << 20;
constexpr size_t kThreadsPerContext = 12;
// Fewer threads write a file in memory faster without mappings: those cost twice as much time.
constexpr size_t kThreadsThatMap = 4;

int64_t UnixSeconds() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1);
}

// Reads pages of a sequence. Waits for the step thread.
Result<KvContent> ReadPages(Scheduler& scheduler, SequenceId sequence, uint32_t first,
                            uint32_t count) {
  auto promise = std::make_shared<std::promise<Result<KvContent>>>();
  auto content = promise->get_future();
  scheduler.Read(sequence, first, count, [promise](Result<KvContent> read) mutable {
    std::exchange(promise, nullptr)->set_value(std::move(read));
  });
  promise.reset();
  try {
    return content.get();
  } catch (const std::future_error&) {  // the scheduler dropped the request: the device stops
    return Fail(Code::kCancelled, "the engine stops: the snapshot was not saved");
  }
}

// Reads and writes the pages of a context. `begin` is the content of the first ones.
Status WritePages(Scheduler& scheduler, SequenceId sequence, PageContentsPtr begin, uint32_t pages,
                  SnapshotWriter& writer, size_t threads) {
  const uint32_t chunk = std::max(begin->pages(), 1U);
  ThreadTeam team("pie-save", threads);
  const auto write = [&](uint32_t first) -> Status {
    PageContentsPtr contents = first == 0 ? std::move(begin) : nullptr;
    if (contents == nullptr) {
      contents = PIE_TRY(ReadPages(scheduler, sequence, first, chunk)).pages;
    }
    for (uint32_t i = 0; i < contents->pages(); ++i) {
      PIE_RETURN_IF_ERROR(writer.WritePage(first + i, PIE_TRY(contents->Page(i))));
    }
    return {};
  };
  std::mutex mutex;
  Status status;
  std::atomic<bool> failed = false;
  team.Run((pages + chunk - 1) / chunk, [&](size_t i) {
    if (failed) return;
    Status written = write(static_cast<uint32_t>(i) * chunk);
    if (written) return;
    failed = true;
    const std::lock_guard lock(mutex);
    status = std::move(written);
  });
  return status;
}

// Returns whether the model can have such rows. A file that was made by hand could hold any number.
bool RowsFit(const RowsView& rows, const BackendInfo& info) {
  const auto below = [](std::span<const uint32_t> numbers, uint32_t limit) {
    return std::ranges::all_of(numbers, [limit](uint32_t n) { return n < limit; });
  };
  return below(rows.tokens, info.vocab_size) && below(rows.positions, info.max_positions);
}

// The memory that the rows of a file take: once as they were read, and once more in the context's
// pages when a pass has run.
size_t StoredBytes(const RowsView& rows) {
  size_t bytes = rows.tokens.size_bytes() + rows.positions.size_bytes();
  for (const Brle& mask : rows.masks) bytes += sizeof(Brle) + mask.size() * sizeof(uint32_t);
  return 2 * bytes;
}

}  // namespace

Snapshots::Snapshots(const Limits& limits, const std::string& folder, std::vector<ModelRef> models,
                     Adapters* adapters)
    : limits_(limits),
      store_(std::in_place, folder, limits),
      models_(std::move(models)),
      adapters_(adapters) {
  store_->RemoveAbandoned();
  writers_.emplace("pie-snapshot", kWriters, limits.max_queued_saves);
}

Result<std::shared_ptr<Saving>> Snapshots::Save(std::string_view user, std::string_view name,
                                                const Context& context) {
  PIE_RETURN_IF_ERROR(CheckSnapshotName(name));
  if (!store_) {
    PIE_RETURN_IF_ERROR(Keep(user, name, context));
    auto saved = std::make_shared<Saving>();
    saved->Set(std::string(name));
    return saved;
  }
  return RunLater<std::string>(
      *writers_, user, "saves",
      [this, user = std::string(user), name = std::string(name), copy = PIE_TRY(context.Fork()),
       // Lives until the guest knows that the save has ended.
       writer = std::optional<SnapshotWriter>()]() mutable -> Result<std::string> {
        Result<SnapshotWriter> written = WriteFile(user, name, *copy);
        copy.reset();  // gives the pages back before the guest learns that the save has ended
        writer.emplace(PIE_TRY(std::move(written)));
        ++saved_;
        return name;
      });
}

Result<std::shared_ptr<Saving>> Snapshots::SaveUnnamed(std::string_view user,
                                                       const Context& context) {
  // Other engines may share the folder, so the name contains a number of this engine's own.
  static const auto origin = static_cast<uint32_t>(
      Mix(static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())));
  std::string name;
  {
    std::lock_guard lock(mutex_);
    do {
      name = store_ ? fmt::format("snapshot-{:08x}-{}", origin, next_unnamed_++)
                    : fmt::format("snapshot-{}", next_unnamed_++);
    } while (kept_.contains(Key(user, context.model(), name)));
  }
  return Save(user, name, context);
}

Status Snapshots::Keep(std::string_view user, std::string_view name, const Context& context) {
  std::lock_guard lock(mutex_);
  Key key(user, context.model(), name);
  auto counted = per_user_.find(user);
  const size_t count = counted == per_user_.end() ? 0 : counted->second;
  if (!kept_.contains(key) && count >= limits_.max_snapshots) {
    return Fail(Code::kExhausted, "user {} has {} snapshots already; delete some", user, count);
  }
  auto copy = PIE_TRY(context.Fork());
  auto [place, fresh] = kept_.insert_or_assign(std::move(key), std::move(copy));
  if (fresh) ++per_user_[std::string(user)];
  return {};
}

Result<std::unique_ptr<Context>> Snapshots::Open(std::string_view user, uint32_t model,
                                                 std::string_view name, const CacheSalt& salt) {
  if (store_) return FromFile(PIE_TRY(store_->Open(FileKey(user, model, name))), model, salt);
  std::lock_guard lock(mutex_);
  auto found = kept_.find(Key(user, model, name));
  if (found == kept_.end()) return NoSnapshot(name);
  return found->second->Fork();
}

Result<std::unique_ptr<Context>> Snapshots::Take(std::string_view user, uint32_t model,
                                                 std::string_view name, const CacheSalt& salt) {
  if (store_) {
    // A snapshot that cannot be opened must not be deleted, so open it before taking it.
    PIE_RETURN_IF_ERROR(Open(user, model, name, salt));
    return FromFile(PIE_TRY(store_->Take(FileKey(user, model, name))), model, salt);
  }
  std::lock_guard lock(mutex_);
  return Remove(Key(user, model, name));
}

Status Snapshots::Delete(std::string_view user, uint32_t model, std::string_view name) {
  if (store_) return store_->Delete(FileKey(user, model, name));
  std::lock_guard lock(mutex_);
  PIE_RETURN_IF_ERROR(Remove(Key(user, model, name)));
  return {};
}

std::vector<Snapshots::Listed> Snapshots::List(std::string_view user, size_t most) const {
  std::vector<Listed> listed;
  if (store_) {
    for (const SnapshotStore::Entry& entry : store_->ListOf(user, most)) {
      if (!entry.problem.empty()) continue;
      listed.push_back({.name = entry.info.name,
                        .model = entry.info.model,
                        .tokens = entry.tokens,
                        .bytes = entry.bytes,
                        .saved_at = entry.info.saved_at});
    }
    return listed;
  }
  std::lock_guard lock(mutex_);
  for (const auto& [key, context] : kept_) {
    if (listed.size() == most) break;
    const auto& [owner, model, name] = key;
    if (owner != user) continue;
    listed.push_back({.name = name, .model = {}, .tokens = context->tokens()});
  }
  return listed;
}

size_t Snapshots::size() const {
  std::lock_guard lock(mutex_);
  return kept_.size();
}

Result<std::unique_ptr<Context>> Snapshots::Remove(const Key& key) {
  auto found = kept_.find(key);
  if (found == kept_.end()) return NoSnapshot(std::get<2>(key));
  auto context = std::move(found->second);
  kept_.erase(found);
  auto user = per_user_.find(std::get<0>(key));
  if (--user->second == 0) per_user_.erase(user);
  return context;
}

Result<std::unique_ptr<Context>> Snapshots::FromFile(std::shared_ptr<SnapshotFile> file,
                                                     uint32_t model, const CacheSalt& salt) const {
  Scheduler* const scheduler = models_[model].scheduler;
  const BackendInfo& device = scheduler->info();
  const SnapshotInfo& info = file->info();
  if (info.fingerprint != device.fingerprint) {
    return Fail(Code::kInvalid,
                "snapshot '{}' was saved by another model that was named '{}'; delete it and save "
                "it anew",
                info.name, info.model);
  }
  if (info.layout != device.layout || info.page_bytes != device.page_bytes ||
      info.page_tokens != device.page_tokens) {
    return Fail(Code::kInvalid,
                "snapshot '{}' has KV pages in the format \"{}\", this engine uses \"{}\": use the "
                "same settings, or delete it and save it again",
                info.name, info.layout, device.layout);
  }
  if (!RowsFit(file->rows(), device)) {
    return Fail(Code::kInvalid,
                "snapshot '{}' has tokens or positions that this model does not have; delete it",
                info.name);
  }
  const Extent extent{info.committed_pages, info.working_pages, info.working_tokens};
  AdaptersByVersion adapters = PIE_TRY(Bind(*file, model));
  const size_t stored_bytes = StoredBytes(file->rows());
  auto context = std::make_unique<Context>(
      scheduler, model, scheduler->Open(salt, std::move(file), {}, std::move(adapters)), extent);
  context->SetStored(stored_bytes);
  return context;
}

Result<AdaptersByVersion> Snapshots::Bind(SnapshotFile& file, uint32_t model) const {
  const SnapshotInfo& info = file.info();
  AdaptersByVersion adapters;
  if (info.adapters.empty()) return adapters;
  std::vector<uint64_t> versions;
  for (const SnapshotAdapter& saved : info.adapters) {
    if (adapters_ == nullptr) {
      return Fail(Code::kUnavailable,
                  "snapshot '{}' has tokens of adapter '{}', and this engine has no adapters",
                  info.name, saved.name);
    }
    const auto version = adapters_->VersionOf(info.user, model, {saved.name, saved.digest});
    if (!version) {
      return Fail(version.error().code, "snapshot '{}' cannot be opened: {}", info.name,
                  version.error().text);
    }
    versions.push_back((*version)->number);
    adapters.emplace_back((*version)->number, (*version)->device);
  }
  file.BindAdapters(versions);
  return adapters;
}

Result<std::vector<SnapshotAdapter>> Snapshots::AdaptersOf(std::string_view user, uint32_t model,
                                                           const Rows& rows) const {
  std::vector<SnapshotAdapter> adapters;
  for (const RowAdapter& row : rows.adapters) {
    if (row.version == 0) continue;
    if (std::ranges::find(adapters, row.version, &SnapshotAdapter::version) != adapters.end()) {
      continue;
    }
    if (adapters_ == nullptr) {
      return Fail(Code::kUnavailable,
                  "the context has tokens that were computed with an adapter; such a context "
                  "cannot be saved to a file here");
    }
    Adapters::Origin origin = PIE_TRY(adapters_->OriginOf(user, model, row.version));
    adapters.push_back({.name = std::move(origin.name),
                        .digest = std::move(origin.digest),
                        .version = row.version});
  }
  return adapters;
}

Result<SnapshotWriter> Snapshots::WriteFile(std::string_view user, const std::string& name,
                                            const Context& context) const {
  Scheduler& scheduler = *models_[context.model()].scheduler;
  const BackendInfo& device = scheduler.info();
  const Extent& extent = context.extent();
  const auto chunk = static_cast<uint32_t>(
      std::max<size_t>(1, device.read_bytes / std::max<size_t>(1, device.page_bytes)));
  const SnapshotStore::Key key = FileKey(user, context.model(), name);

  KvContent content = PIE_TRY(ReadPages(scheduler, context.sequence(), 0, chunk));
  const Rows rows = std::move(content.rows);
  auto adapters = PIE_TRY(AdaptersOf(user, context.model(), rows));
  const SnapshotInfo info{.user = std::string(user),
                          .model = std::string(key.model),
                          .name = name,
                          .fingerprint = device.fingerprint,
                          .layout = device.layout,
                          .page_bytes = device.page_bytes,
                          .page_tokens = device.page_tokens,
                          .committed_pages = extent.committed_pages,
                          .working_pages = extent.working_pages,
                          .working_tokens = extent.working_tokens,
                          .saved_at = UnixSeconds(),
                          .adapters = std::move(adapters)};
  if (rows.size() != context.tokens()) {
    return Fail(Code::kInternal, "the context counts {} tokens, its pages hold {}",
                context.tokens(), rows.size());
  }
  const uint64_t bytes = SnapshotBytes(info, rows.view());
  SnapshotWriter writer = PIE_TRY(store_->Begin(key, bytes));
  const size_t threads =
      ThreadTeam::Size(std::min<size_t>(kThreadsPerContext, bytes / kBytesPerThread));
  if (threads >= kThreadsThatMap) PIE_RETURN_IF_ERROR(writer.Reserve(bytes));
  PIE_RETURN_IF_ERROR(writer.Write(SnapshotHead(info, rows.view())));
  const uint32_t pages = (rows.size() + device.page_tokens - 1) / device.page_tokens;
  PIE_RETURN_IF_ERROR(
      WritePages(scheduler, context.sequence(), std::move(content.pages), pages, writer, threads));
  PIE_RETURN_IF_ERROR(store_->Commit(key, writer, bytes));
  return writer;
}

}  // namespace pie::host
