// Registry: the installed programs, on disk. Components are files named by their hash; an SQLite
// index lists the programs. A component is written to a temporary file, flushed, renamed, and only
// then indexed, so that after a crash a program is either installed completely or not at all.
//
// Any thread may use it, and several processes (`pie serve`, `pie inferlet`) at the same time.
// Calls access files, so the IO thread must not make them; Find is cached and exempt.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/manifest.h"

struct sqlite3;

namespace pie::server {

struct InstalledProgram {
  std::string name, version;
  std::string wasm_hash, manifest_hash;
  std::string manifest;      // the text of its Pie.toml
  uint64_t bytes = 0;        // size of the component
  std::string owner;         // the user who installed it
  int64_t installed_at = 0;  // seconds since 1970
  std::string id() const { return name + "@" + version; }
};

class Registry {
 public:
  // Creates the folder if it does not exist.
  static Result<std::unique_ptr<Registry>> Open(const std::string& dir);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Stores a program. Adding the same bytes again succeeds. Replacing a version by other bytes
  // needs `overwrite`, and the user who installed it (or `admin`).
  Status Add(std::string_view manifest_text, std::string_view component, std::string_view user,
             bool overwrite, bool admin = false);
  // Writes the component to the disk, which may take seconds, without holding a lock. Add does the
  // same if it was not done before. A component that is not added afterwards must be discarded.
  Status Prepare(std::string_view component);
  void Discard(std::string_view component);
  // `program` is `name`, which means its latest version, or `name@version`.
  Result<InstalledProgram> Find(std::string_view program);
  Result<std::vector<InstalledProgram>> List();  // without their manifests
  Result<std::string> ReadComponent(const InstalledProgram& program);
  Status Remove(std::string_view program);
  // Fails if the user would have too many programs, or too many bytes of them.
  Status CheckQuota(std::string_view user, uint64_t bytes, bool admin = false);
  // Returns the error that Add would return, before the component is compiled.
  Status CheckOverwrite(const host::Manifest& manifest, std::string_view wasm_hash,
                        std::string_view user, bool overwrite, bool admin = false);

 private:
  Registry(std::string dir, sqlite3* db) : dir_(std::move(dir)), db_(db) {}
  std::string BlobPath(std::string_view hash) const;
  Status RemoveOrphans();
  Status CheckOverwriteLocked(const host::Manifest& manifest, std::string_view wasm_hash,
                              std::string_view user, bool overwrite, bool admin);
  Result<std::vector<InstalledProgram>> Select(std::string_view name);  // "": all; no manifests

  Status PrepareHash(const std::string& hash, std::string_view component);
  Status Insert(const host::Manifest& manifest, std::string_view manifest_text,
                const std::string& hash, uint64_t bytes, std::string_view user);
  void DiscardHash(const std::string& hash);
  void RemoveUnnamed(const std::string& hash);

  const std::string dir_;
  std::mutex mutex_;
  struct Prepared {
    size_t users = 0;       // calls that will add or discard it
    bool is_whole = false;  // the file is on the disk
    bool is_new = false;    // it was not there before
  };
  std::map<std::string, Prepared, std::less<>> prepared_;  // by hash
  sqlite3* db_;
};

// Returns whether version `a` is older than `b` by the rules of semver.org, including prereleases.
bool OlderVersion(std::string_view a, std::string_view b);

}  // namespace pie::server
