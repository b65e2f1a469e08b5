#include "host/snapshots.h"

namespace pie::host {

Status Snapshots::Save(std::string_view user, std::string_view name, const Context& context) {
  if (name.empty()) return Fail(Code::kInvalid, "a snapshot needs a name");
  if (name.size() > 256) {
    return Fail(Code::kInvalid, "a snapshot's name has at most 256 bytes, this one {}",
                name.size());
  }
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

Result<std::string> Snapshots::SaveUnnamed(std::string_view user, const Context& context) {
  std::string name;
  {
    std::lock_guard lock(mutex_);
    do {
      name = fmt::format("snapshot-{}", next_unnamed_++);
    } while (kept_.contains(Key(user, context.model(), name)));
  }
  PIE_RETURN_IF_ERROR(Save(user, name, context));
  return name;
}

Result<std::unique_ptr<Context>> Snapshots::Open(std::string_view user, uint32_t model,
                                                 std::string_view name) {
  std::lock_guard lock(mutex_);
  auto found = kept_.find(Key(user, model, name));
  if (found == kept_.end()) return Fail(Code::kNotFound, "no snapshot is named '{}'", name);
  return found->second->Fork();
}

Result<std::unique_ptr<Context>> Snapshots::Take(std::string_view user, uint32_t model,
                                                 std::string_view name) {
  std::lock_guard lock(mutex_);
  return Remove(Key(user, model, name));
}

Status Snapshots::Delete(std::string_view user, uint32_t model, std::string_view name) {
  std::lock_guard lock(mutex_);
  PIE_RETURN_IF_ERROR(Remove(Key(user, model, name)));
  return {};
}

size_t Snapshots::size() const {
  std::lock_guard lock(mutex_);
  return kept_.size();
}

Result<std::unique_ptr<Context>> Snapshots::Remove(const Key& key) {
  auto found = kept_.find(key);
  if (found == kept_.end()) {
    return Fail(Code::kNotFound, "no snapshot is named '{}'", std::get<2>(key));
  }
  auto context = std::move(found->second);
  kept_.erase(found);
  auto user = per_user_.find(std::get<0>(key));
  if (--user->second == 0) per_user_.erase(user);
  return context;
}

}  // namespace pie::host
