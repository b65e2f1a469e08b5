#include "store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace pie::sim {
namespace {

constexpr const char* kModel = "dummy";
constexpr uint32_t kRoom = 1U << 30;  // pages in memory: no limit

std::string UserName(uint32_t user) {
  return fmt::format("user {}", user);
}

// The adapters that the rows name, each by its number.
std::vector<SnapshotAdapter> AdaptersOf(const Rows& rows) {
  std::vector<SnapshotAdapter> adapters;
  for (const RowAdapter& row : rows.adapters) {
    const auto known = std::ranges::find(adapters, row.version, &SnapshotAdapter::version);
    if (row.version == 0 || known != adapters.end()) continue;
    adapters.push_back({.name = std::to_string(row.version),
                        .digest = fmt::format("digest of {}", row.version),
                        .version = row.version});
  }
  return adapters;
}

SnapshotInfo InfoOf(const BackendInfo& device, const std::string& user, const std::string& name,
                    const Rows& rows) {
  const uint32_t tokens = rows.size();
  const uint32_t rest = tokens % device.page_tokens;
  return {.user = user,
          .model = kModel,
          .name = name,
          .fingerprint = device.fingerprint,
          .layout = device.layout,
          .page_bytes = device.page_bytes,
          .page_tokens = device.page_tokens,
          .committed_pages = tokens / device.page_tokens,
          .working_pages = rest > 0 ? 1U : 0U,
          .working_tokens = rest,
          .adapters = AdaptersOf(rows)};
}

// Compares the rows with what they must be.
bool AreEqual(const RowsView& rows, const Slots& slots, const Store::SlotAdapters& adapters) {
  if (rows.size() != slots.size()) return false;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const uint64_t adapter = adapters.empty() ? 0 : adapters[i];
    if (rows.tokens[i] != slots[i].token || rows.positions[i] != slots[i].position ||
        rows.adapter(i).version != adapter) {
      return false;
    }
  }
  return true;
}

}  // namespace

Store::Store(const BackendInfo& info, bool in_files) : info_(info), memory_(kRoom) {
  if (!in_files) return;
  folder_ = (std::filesystem::temp_directory_path() / "pie-sim-XXXXXX").string();
  PIE_CHECK(mkdtemp(folder_.data()) != nullptr);
  files_.emplace(folder_, limits_);
}

Store::~Store() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

Result<std::shared_ptr<const StoredKv>> Store::FromFile(const Key& key, bool take) {
  const host::SnapshotStore::Key name{key.first, kModel, key.second};
  const auto file = PIE_TRY(take ? files_->Take(name) : files_->Open(name));
  std::vector<uint64_t> versions;
  for (const SnapshotAdapter& adapter : file->info().adapters) {
    versions.push_back(std::stoull(adapter.name));
  }
  file->BindAdapters(versions);
  return file;
}

Result<std::optional<Store::Saved>> Store::Find(uint32_t user, const std::string& name, bool take) {
  const Key key(UserName(user), name);
  const auto found = entries_.find(key);
  std::optional<Saved> saved;
  if (found != entries_.end()) {
    saved = Saved{found->second.kv, found->second.slots, found->second.adapters};
  }
  if (files_) {
    auto file = FromFile(key, take);
    if (!file && (saved || file.error().code != Code::kNotFound)) {
      return Fail(Code::kInternal, "{}'s snapshot: {}", key.first, file.error().text);
    }
    if (file && !saved) return Fail(Code::kInternal, "{}'s snapshot came back", key.first);
    if (saved) saved->kv = *std::move(file);
  }
  if (saved && !AreEqual(saved->kv->rows(), saved->slots, saved->adapters)) {
    return Fail(Code::kInternal, "a snapshot of {} tokens has {} others", saved->slots.size(),
                saved->kv->rows().size());
  }
  if (take && saved) entries_.erase(found);
  if (saved) ++opened_;
  if (saved && !saved->adapters.empty()) ++opened_adapted_;
  return saved;
}

Result<std::optional<Store::Saved>> Store::Open(uint32_t user, const std::string& name) {
  return Find(user, name, false);
}

Result<std::optional<Store::Saved>> Store::Take(uint32_t user, const std::string& name) {
  return Find(user, name, true);
}

Status Store::Delete(uint32_t user, const std::string& name) {
  const Key key(UserName(user), name);
  const bool there = entries_.erase(key) > 0;
  if (!files_) return {};
  const Status removed = files_->Delete({key.first, kModel, key.second});
  if (removed.has_value() == there) return {};
  return Fail(Code::kInternal, "deleting {}'s snapshot: {}", key.first,
              removed ? "there was one" : removed.error().text);
}

Status Store::Save(uint32_t user, const std::string& name, KvContent content, Slots slots,
                   SlotAdapters adapters, bool killed) {
  const Key key(UserName(user), name);
  if (!AreEqual(content.rows.view(), slots, adapters)) {
    return Fail(Code::kInternal, "what was read is not what was saved");
  }
  if (files_) PIE_RETURN_IF_ERROR(WriteFile(key, content, killed));
  if (killed) return {};
  Entry& entry = entries_[key];
  entry.slots = std::move(slots);
  entry.adapters = std::move(adapters);
  if (!files_) {
    entry.kv = memory_.Keep(std::move(content.rows), std::move(content.pages));
  }
  ++saved_;
  return {};
}

Status Store::WriteFile(const Key& key, const KvContent& content, bool killed) {
  const host::SnapshotStore::Key file{key.first, kModel, key.second};
  const SnapshotInfo info = InfoOf(info_, key.first, key.second, content.rows);
  const uint64_t bytes = SnapshotBytes(info, content.rows.view());
  SnapshotWriter writer = PIE_TRY(files_->Begin(file, bytes));
  PIE_RETURN_IF_ERROR(writer.Write(SnapshotHead(info, content.rows.view())));
  const uint32_t pages = content.pages->pages();
  for (uint32_t i = 0; i < (killed ? pages / 2 : pages); ++i) {
    PIE_RETURN_IF_ERROR(writer.WritePage(i, PIE_TRY(content.pages->Page(i))));
  }
  return killed ? Status() : files_->Commit(file, writer, bytes);
}

}  // namespace pie::sim
