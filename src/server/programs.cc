#include "server/programs.h"

#include <algorithm>

#include "host/hash.h"

namespace pie::server {
namespace {

constexpr auto kTrustedFor = std::chrono::seconds(1);
constexpr size_t kMostKnown = 4'096;
// Above this, or above the limit of their code, programs that were not used lately leave memory.
constexpr size_t kMostLoaded = 512;
constexpr auto kKeptFor = std::chrono::minutes(1);  // after its last use

}  // namespace

std::optional<std::string> Programs::Loaded(std::string_view program) {
  std::lock_guard lock(mutex_);
  auto found = known_.find(program);
  if (found == known_.end()) return std::nullopt;
  if (std::chrono::steady_clock::now() - found->second.looked_up > kTrustedFor) return std::nullopt;
  return found->second.id;
}

Result<std::optional<std::string>> Programs::Load(std::string_view program, Compiling compiling) {
  InstalledProgram found = PIE_TRY(registry_.Find(program));
  if (!IsLoaded(found)) {
    const auto lock_of = LockOf(found.wasm_hash);
    std::unique_lock loading(*lock_of, std::defer_lock);
    if (compiling == Compiling::kAllowed) {
      loading.lock();
      found = PIE_TRY(registry_.Find(program));  // it may have been replaced meanwhile
    }
    if (!IsLoaded(found)) {
      const auto manifest = PIE_TRY(host::ParseManifest(found.manifest, found.id()));
      const std::string component = PIE_TRY(registry_.ReadComponent(found));
      auto code = PIE_TRY(engine_.Compile(component, found.owner, compiling));
      if (!code) return std::nullopt;
      std::lock_guard installing(installing_);
      // An installation that has replaced it meanwhile has loaded its own code.
      if (PIE_TRY(registry_.Find(found.id())).wasm_hash == found.wasm_hash) {
        const size_t bytes = code->code_bytes();
        engine_.KeepProgram(manifest, std::move(code));
        NoteLoaded(found.id(), found.wasm_hash, bytes);
      }
    }
  }
  std::lock_guard lock(mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_[std::string(program)] = {found.id(), std::chrono::steady_clock::now()};
  return found.id();
}

std::shared_ptr<std::mutex> Programs::LockOf(const std::string& hash) {
  std::lock_guard lock(mutex_);
  std::erase_if(locks_, [](const auto& entry) { return entry.second.expired(); });
  auto found = locks_[hash].lock();
  if (!found) locks_[hash] = found = std::make_shared<std::mutex>();
  return found;
}

bool Programs::IsLoaded(const InstalledProgram& program) {
  std::lock_guard lock(mutex_);
  const auto entry = loaded_.find(program.id());
  if (entry == loaded_.end() || entry->second.hash != program.wasm_hash) return false;
  entry->second.used = std::chrono::steady_clock::now();
  return true;
}

std::vector<std::string> Programs::TakeUnused(Codes& loaded, size_t most_bytes, Time now) {
  size_t bytes = 0;
  for (const auto& [id, code] : loaded) bytes += code.bytes;
  std::vector<std::string> leave;
  while (loaded.size() > kMostLoaded || bytes > most_bytes) {
    const auto oldest =
        std::ranges::min_element(loaded, {}, [](const auto& entry) { return entry.second.used; });
    if (now - oldest->second.used < kKeptFor) break;
    bytes -= oldest->second.bytes;
    leave.push_back(oldest->first);
    loaded.erase(oldest);
  }
  return leave;
}

void Programs::NoteLoaded(const std::string& id, const std::string& hash, size_t bytes) {
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::string> leave;
  {
    std::lock_guard lock(mutex_);
    loaded_[id] = {hash, bytes, now};
    leave = TakeUnused(loaded_, most_code_bytes_, now);
    if (!leave.empty()) known_.clear();
  }
  for (const std::string& program : leave) engine_.RemoveProgram(program);
}

Result<bool> Programs::Install(std::string_view manifest_text, std::string_view component,
                               std::string_view user, bool overwrite, bool admin,
                               Compiling compiling) {
  const auto manifest = PIE_TRY(host::ParseManifest(manifest_text, "Pie.toml"));
  const std::string hash = host::Blake3Hex(component);
  PIE_RETURN_IF_ERROR(registry_.CheckOverwrite(manifest, hash, user, overwrite, admin));
  PIE_RETURN_IF_ERROR(registry_.CheckQuota(user, component.size(), admin));
  auto code = PIE_TRY(engine_.Compile(component, user, compiling));
  if (!code) return false;
  // No thread waits here for a compiler or for the disk, because a program is compiled and written
  // before it is known by its name.
  PIE_RETURN_IF_ERROR(registry_.Prepare(component));
  std::unique_lock installing(installing_);
  Status added = registry_.CheckQuota(user, component.size(), admin);
  if (added) added = registry_.Add(manifest_text, component, user, overwrite, admin);
  if (!added) {
    installing.unlock();
    registry_.Discard(component);
    return std::unexpected(added.error());
  }
  registry_.Discard(component);  // keeps a component that was added
  const size_t bytes = code->code_bytes();
  engine_.KeepProgram(manifest, std::move(code));
  NoteLoaded(manifest.id(), hash, bytes);
  std::lock_guard lock(mutex_);
  known_.clear();
  return true;
}

}  // namespace pie::server
