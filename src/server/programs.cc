#include "server/programs.h"

#include "host/hash.h"

namespace pie::server {
namespace {

constexpr auto kTrustedFor = std::chrono::seconds(1);
constexpr size_t kMostKnown = 4'096;

}  // namespace

std::optional<std::string> Programs::Loaded(std::string_view program) {
  std::lock_guard lock(mutex_);
  auto found = known_.find(program);
  if (found == known_.end()) return std::nullopt;
  if (std::chrono::steady_clock::now() - found->second.looked_up > kTrustedFor) return std::nullopt;
  return found->second.id;
}

Result<std::string> Programs::Load(std::string_view program) {
  InstalledProgram found = PIE_TRY(registry_.Find(program));
  if (!IsLoaded(found)) {
    std::lock_guard loading(loading_);
    found = PIE_TRY(registry_.Find(program));  // it may have been replaced while this thread waited
    if (!IsLoaded(found)) {
      const auto manifest = PIE_TRY(host::ParseManifest(found.manifest, found.id()));
      const std::string component = PIE_TRY(registry_.ReadComponent(found));
      PIE_RETURN_IF_ERROR(engine_.AddProgram(manifest, component, {}));
      std::lock_guard lock(mutex_);
      loaded_[found.id()] = found.wasm_hash;
    }
  }
  std::lock_guard lock(mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_[std::string(program)] = {found.id(), std::chrono::steady_clock::now()};
  return found.id();
}

bool Programs::IsLoaded(const InstalledProgram& program) {
  std::lock_guard lock(mutex_);
  const auto entry = loaded_.find(program.id());
  return entry != loaded_.end() && entry->second == program.wasm_hash;
}

Status Programs::Install(std::string_view manifest_text, std::string_view component,
                         std::string_view user, bool overwrite, bool admin) {
  std::lock_guard loading(loading_);
  const auto manifest = PIE_TRY(host::ParseManifest(manifest_text, "Pie.toml"));
  const std::string hash = host::Blake3Hex(component);
  PIE_RETURN_IF_ERROR(registry_.CheckOverwrite(manifest, hash, user, overwrite, admin));
  PIE_RETURN_IF_ERROR(engine_.AddProgram(manifest, component, {}));
  const Status kept = registry_.Add(manifest_text, component, user, overwrite, admin);
  std::lock_guard lock(mutex_);
  known_.clear();
  if (kept) {
    loaded_[manifest.id()] = hash;
  } else {
    loaded_.erase(manifest.id());  // the version on disk is loaded again on its next use
  }
  return kept;
}

}  // namespace pie::server
