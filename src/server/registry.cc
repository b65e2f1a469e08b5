#include "server/registry.h"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/whole_file.h"
#include "host/hash.h"

namespace pie::server {
namespace {

namespace fs = std::filesystem;

constexpr int kBusyTimeoutMs = 10'000;
// Limits on the installed programs of one user: their number, and their bytes on the disk.
constexpr uint64_t kMostProgramsOfUser = 1'024;
constexpr uint64_t kMostBytesOfUser = 4ull << 30;
constexpr auto kOrphanAge = std::chrono::hours(1);
constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS programs ("
    " name TEXT NOT NULL, version TEXT NOT NULL, wasm_hash TEXT NOT NULL,"
    " manifest_hash TEXT NOT NULL, manifest TEXT NOT NULL, bytes INTEGER NOT NULL,"
    " owner TEXT NOT NULL, installed_at INTEGER NOT NULL, PRIMARY KEY (name, version))";
// Everything but the manifests, which may be large: a search reads this index and not the table.
constexpr const char* kIndex =
    "CREATE INDEX IF NOT EXISTS programs_listed ON programs"
    " (name, version, wasm_hash, manifest_hash, bytes, owner, installed_at)";

Error SqlError(sqlite3* db, std::string_view doing) {
  return {Code::kInternal, fmt::format("the program index: {}: {}", doing, sqlite3_errmsg(db))};
}

// A prepared statement, bound and stepped.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) { sqlite3_prepare_v2(db, sql, -1, &raw_, nullptr); }
  ~Statement() { sqlite3_finalize(raw_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  bool ok() const { return raw_ != nullptr; }
  Statement& Text(std::string_view text) {
    sqlite3_bind_text(raw_, ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& Number(int64_t number) {
    sqlite3_bind_int64(raw_, ++bound_, number);
    return *this;
  }
  int Step() { return raw_ == nullptr ? SQLITE_ERROR : sqlite3_step(raw_); }
  std::string GetText(int column) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(raw_, column));
    return text == nullptr ? "" : std::string(text, sqlite3_column_bytes(raw_, column));
  }
  int64_t GetNumber(int column) { return sqlite3_column_int64(raw_, column); }

 private:
  sqlite3_stmt* raw_ = nullptr;
  int bound_ = 0;
};

// Returns the entry without its manifest.
InstalledProgram Row(Statement& row) {
  return {.name = row.GetText(0),
          .version = row.GetText(1),
          .wasm_hash = row.GetText(2),
          .manifest_hash = row.GetText(3),
          .manifest = "",
          .bytes = static_cast<uint64_t>(row.GetNumber(4)),
          .owner = row.GetText(5),
          .installed_at = row.GetNumber(6)};
}

}  // namespace

Result<std::unique_ptr<Registry>> Registry::Open(const std::string& dir) {
  std::error_code error;
  fs::create_directories(fs::path(dir) / "components", error);
  if (error) return Fail(Code::kInternal, "cannot create the folder {}: {}", dir, error.message());
  sqlite3* db = nullptr;
  const std::string path = dir + "/index.sqlite";
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  const int opened = sqlite3_open_v2(path.c_str(), &db, flags, nullptr);
  std::unique_ptr<Registry> registry(new Registry(dir, db));
  if (opened != SQLITE_OK) return std::unexpected(SqlError(db, "opening " + path));
  sqlite3_busy_timeout(db, kBusyTimeoutMs);
  for (const char* sql : {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", kSchema, kIndex}) {
    if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
      return std::unexpected(SqlError(db, "setting up " + path));
    }
  }
  PIE_RETURN_IF_ERROR(registry->RemoveOrphans());
  return registry;
}

Registry::~Registry() {
  sqlite3_close(db_);
}

std::string Registry::BlobPath(std::string_view hash) const {
  return fmt::format("{}/components/{}.wasm", dir_, hash);
}

// Removes components that no entry names: left by an interrupted installation or by a removal.
// Recent ones stay, because another process may be about to index them.
Status Registry::RemoveOrphans() {
  std::set<std::string> named;
  for (const InstalledProgram& program : PIE_TRY(Select(""))) named.insert(program.wasm_hash);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir_ + "/components", ignored)) {
    if (named.contains(entry.path().stem().string()) && entry.path().extension() == ".wasm") {
      continue;
    }
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(entry.path(), ignored);
    if (!ignored && age > kOrphanAge) fs::remove(entry.path(), ignored);
  }
  return {};
}

Result<std::vector<InstalledProgram>> Registry::Select(std::string_view name) {
  Statement rows(db_,
                 "SELECT name, version, wasm_hash, manifest_hash, bytes, owner, installed_at"
                 " FROM programs INDEXED BY programs_listed WHERE ?1 = '' OR name = ?1"
                 " ORDER BY name");
  rows.Text(name);
  std::vector<InstalledProgram> found;
  int step = 0;
  while ((step = rows.Step()) == SQLITE_ROW) found.push_back(Row(rows));
  if (step != SQLITE_DONE) return std::unexpected(SqlError(db_, "reading"));
  std::ranges::sort(found, [](const auto& a, const auto& b) {
    if (a.name != b.name) return a.name < b.name;
    if (OlderVersion(a.version, b.version)) return true;
    // Versions that differ only in build metadata are ordered by text.
    return !OlderVersion(b.version, a.version) && a.version < b.version;
  });
  return found;
}

Status Registry::CheckOverwrite(const host::Manifest& manifest, std::string_view wasm_hash,
                                std::string_view user, bool overwrite, bool admin) {
  std::lock_guard lock(mutex_);
  return CheckOverwriteLocked(manifest, wasm_hash, user, overwrite, admin);
}

Status Registry::CheckOverwriteLocked(const host::Manifest& manifest, std::string_view wasm_hash,
                                      std::string_view user, bool overwrite, bool admin) {
  for (const InstalledProgram& program : PIE_TRY(Select(manifest.name))) {
    if (program.owner != user && !admin) {
      return Fail(
          Code::kInvalid,
          "{} belongs to another user: choose another name in the [package] section of Pie.toml",
          program.name);
    }
    if (program.version != manifest.version || program.wasm_hash == wasm_hash) continue;
    if (!overwrite) {
      return Fail(Code::kInvalid,
                  "{} is already installed with other content: raise its version in Pie.toml, or "
                  "install it with force_overwrite",
                  program.id());
    }
  }
  return {};
}

Status Registry::CheckQuota(std::string_view user, uint64_t bytes, bool admin) {
  if (admin) return {};
  std::lock_guard lock(mutex_);
  Statement sum(db_,
                "SELECT COUNT(*), COALESCE(SUM(bytes), 0) FROM programs INDEXED BY programs_listed"
                " WHERE owner = ?");
  sum.Text(user);
  if (sum.Step() != SQLITE_ROW) return std::unexpected(SqlError(db_, "reading"));
  const auto count = static_cast<uint64_t>(sum.GetNumber(0));
  const uint64_t total = static_cast<uint64_t>(sum.GetNumber(1)) + bytes;
  if (count < kMostProgramsOfUser && total <= kMostBytesOfUser) return {};
  return Fail(Code::kExhausted,
              "you have {} installed programs, with this one {} MiB; {} programs and {} MiB are "
              "allowed: remove some with `pie inferlet remove`",
              count, total >> 20, kMostProgramsOfUser, kMostBytesOfUser >> 20);
}

Status Registry::Prepare(std::string_view component) {
  return PrepareHash(host::Blake3Hex(component), component);
}

Status Registry::PrepareHash(const std::string& hash, std::string_view component) {
  {
    std::lock_guard lock(mutex_);
    Prepared& prepared = prepared_[hash];
    ++prepared.users;
    if (prepared.is_whole) return {};
  }
  // A file that is there may be damaged.
  const std::string path = BlobPath(hash);
  std::ifstream file(path, std::ios::binary);
  const std::string old(std::istreambuf_iterator<char>(file), {});
  const bool is_there = file && old == component;
  if (!is_there) {
    if (Status written = WriteWhole(path, component); !written) {
      DiscardHash(hash);
      return written;
    }
  }
  std::lock_guard lock(mutex_);
  Prepared& prepared = prepared_[hash];
  prepared.is_whole = true;
  prepared.is_new |= !is_there;
  return {};
}

void Registry::Discard(std::string_view component) {
  DiscardHash(host::Blake3Hex(component));
}

void Registry::DiscardHash(const std::string& hash) {
  std::lock_guard lock(mutex_);
  const auto found = prepared_.find(hash);
  if (found == prepared_.end() || --found->second.users > 0) return;
  const bool is_new = found->second.is_new;
  prepared_.erase(found);
  if (!is_new) return;  // another process may be about to add it
  RemoveUnnamed(hash);
}

Status Registry::Add(std::string_view manifest_text, std::string_view component,
                     std::string_view user, bool overwrite, bool admin) {
  const host::Manifest manifest = PIE_TRY(host::ParseManifest(manifest_text, "Pie.toml"));
  const std::string hash = host::Blake3Hex(component);
  PIE_RETURN_IF_ERROR(CheckOverwrite(manifest, hash, user, overwrite, admin));
  PIE_RETURN_IF_ERROR(PrepareHash(hash, component));
  const Status added = [&]() -> Status {
    std::lock_guard lock(mutex_);
    PIE_RETURN_IF_ERROR(CheckOverwriteLocked(manifest, hash, user, overwrite, admin));
    return Insert(manifest, manifest_text, hash, component.size(), user);
  }();
  DiscardHash(hash);  // keeps a component that was added
  return added;
}

Status Registry::Insert(const host::Manifest& manifest, std::string_view manifest_text,
                        const std::string& hash, uint64_t bytes, std::string_view user) {
  Statement replaced(db_, "SELECT wasm_hash FROM programs WHERE name = ? AND version = ?");
  replaced.Text(manifest.name).Text(manifest.version);
  const std::string old = replaced.Step() == SQLITE_ROW ? replaced.GetText(0) : "";
  const auto now = std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1);
  Statement insert(db_, "INSERT OR REPLACE INTO programs VALUES (?,?,?,?,?,?,?,?)");
  insert.Text(manifest.name).Text(manifest.version).Text(hash);
  insert.Text(host::Blake3Hex(manifest_text)).Text(manifest_text);
  insert.Number(static_cast<int64_t>(bytes)).Text(user).Number(now);
  if (insert.Step() != SQLITE_DONE) return std::unexpected(SqlError(db_, "writing"));
  if (!old.empty() && old != hash) RemoveUnnamed(old);
  return {};
}

// Removes a component that was replaced, unless it has another name or is about to have one. Quotas
// count only components with names.
void Registry::RemoveUnnamed(const std::string& hash) {
  if (prepared_.contains(hash)) return;
  Statement named(db_, "SELECT 1 FROM programs INDEXED BY programs_listed WHERE wasm_hash = ?");
  named.Text(hash);
  std::error_code ignored;
  if (named.Step() == SQLITE_DONE) fs::remove(BlobPath(hash), ignored);
}

Result<InstalledProgram> Registry::Find(std::string_view program) {
  const size_t at = program.find('@');
  const std::string_view name = program.substr(0, at);
  std::lock_guard lock(mutex_);
  auto found = PIE_TRY(Select(name.empty() ? "@" : name));
  if (at != std::string_view::npos) {
    std::erase_if(found, [&](const auto& p) { return p.version != program.substr(at + 1); });
  }
  if (found.empty()) {
    return Fail(Code::kNotFound, "no program '{}' is installed; see `pie inferlet list`", program);
  }
  InstalledProgram program_found = std::move(found.back());
  Statement manifest(db_, "SELECT manifest FROM programs WHERE name = ? AND version = ?");
  manifest.Text(program_found.name).Text(program_found.version);
  if (manifest.Step() != SQLITE_ROW) return std::unexpected(SqlError(db_, "reading a manifest"));
  program_found.manifest = manifest.GetText(0);
  return program_found;
}

Result<std::vector<InstalledProgram>> Registry::List() {
  std::lock_guard lock(mutex_);
  return Select("");
}

Result<std::string> Registry::ReadComponent(const InstalledProgram& program) {
  const std::string path = BlobPath(program.wasm_hash);
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file || host::Blake3Hex(bytes) != program.wasm_hash) {
    return Fail(Code::kInternal, "the component of {} is damaged ({}): install it again",
                program.id(), path);
  }
  return bytes;
}

Status Registry::Remove(std::string_view program) {
  const InstalledProgram found = PIE_TRY(Find(program));
  const bool all = program.find('@') == std::string_view::npos;
  std::lock_guard lock(mutex_);
  Statement remove(db_, all ? "DELETE FROM programs WHERE name = ?"
                            : "DELETE FROM programs WHERE name = ? AND version = ?");
  remove.Text(found.name);
  if (!all) remove.Text(found.version);
  if (remove.Step() != SQLITE_DONE) return std::unexpected(SqlError(db_, "removing"));
  return {};  // RemoveOrphans deletes the component when it is an hour old, as it may be in use
}

}  // namespace pie::server
