#include "store.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace pie::sim {
namespace {

constexpr const char* kModel = "dummy";
constexpr uint32_t kRoom = 1U << 30;  // pages in memory: as many as there are

std::string UserName(uint32_t user) {
  return fmt::format("user {}", user);
}

SnapshotInfo InfoOf(const BackendInfo& device, const std::string& user, const std::string& name,
                    uint32_t tokens) {
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
          .working_tokens = rest};
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
  const host::SnapshotStore::Key file{key.first, kModel, key.second};
  return take ? files_->Take(file) : files_->Open(file);
}

Result<std::optional<Store::Saved>> Store::Find(uint32_t user, const std::string& name, bool take) {
  const Key key(UserName(user), name);
  const auto found = entries_.find(key);
  std::optional<Saved> saved;
  if (found != entries_.end()) saved = Saved{found->second.kv, found->second.slots};
  if (files_) {
    auto file = FromFile(key, take);
    if (!file && (saved || file.error().code != Code::kNotFound)) {
      return Fail(Code::kInternal, "{}'s snapshot: {}", key.first, file.error().text);
    }
    if (file && !saved) return Fail(Code::kInternal, "{}'s snapshot came back", key.first);
    if (saved) saved->kv = *std::move(file);
  }
  if (saved && saved->kv->rows().size() != saved->slots.size()) {
    return Fail(Code::kInternal, "a snapshot of {} tokens has {}", saved->slots.size(),
                saved->kv->rows().size());
  }
  if (take && saved) entries_.erase(found);
  if (saved) ++opened_;
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
                   bool killed) {
  const Key key(UserName(user), name);
  bool equal = content.rows.size() == slots.size();
  for (uint32_t i = 0; equal && i < slots.size(); ++i) {
    equal =
        content.rows.tokens[i] == slots[i].token && content.rows.positions[i] == slots[i].position;
  }
  if (!equal) return Fail(Code::kInternal, "what was read is not what was saved");
  if (files_) PIE_RETURN_IF_ERROR(WriteFile(key, content, killed));
  if (killed) return {};
  Entry& entry = entries_[key];
  entry.slots = std::move(slots);
  if (!files_) {
    entry.kv = memory_.Keep(std::move(content.rows), std::move(content.bytes), info_.page_bytes);
  }
  ++saved_;
  return {};
}

Status Store::WriteFile(const Key& key, const KvContent& content, bool killed) {
  const host::SnapshotStore::Key file{key.first, kModel, key.second};
  const SnapshotInfo info = InfoOf(info_, key.first, key.second, content.rows.size());
  const uint64_t bytes = SnapshotBytes(info, content.rows.view());
  SnapshotWriter writer = PIE_TRY(files_->Begin(file, bytes));
  PIE_RETURN_IF_ERROR(writer.Write(SnapshotHead(info, content.rows.view())));
  const auto pages = static_cast<uint32_t>(content.bytes.size() / info_.page_bytes);
  for (uint32_t i = 0; i < (killed ? pages / 2 : pages); ++i) {
    PIE_RETURN_IF_ERROR(writer.WritePage(
        i, std::span(content.bytes).subspan(i * info_.page_bytes, info_.page_bytes)));
  }
  return killed ? Status() : files_->Commit(file, std::move(writer), bytes);
}

}  // namespace pie::sim
