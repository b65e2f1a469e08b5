// Registry: the installed programs, on disk. Components are files named by their hash; an SQLite
// index says which program is which. A component is written aside, flushed, renamed, and only then
// indexed: whatever moment the machine stops at, a program is there whole or not at all.
//
// Any thread may use it, and several processes (`pie serve`, `pie inferlet`) at once. Calls read
// and write files, so they are not for the IO thread, save Find, which is cached.
#pragma once

#include <cstdint>
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
  uint64_t bytes = 0;        // of the component
  std::string owner;         // the user who installed it
  int64_t installed_at = 0;  // seconds since 1970
  std::string id() const { return name + "@" + version; }
};

class Registry {
 public:
  // Makes the folder if it is not there.
  static Result<std::unique_ptr<Registry>> Open(const std::string& dir);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Keeps the program. The same bytes again are fine. Other bytes for a version that is there need
  // `overwrite`, by the user who installed it (or by `admin`).
  Status Add(std::string_view manifest_text, std::string_view component, std::string_view user,
             bool overwrite, bool admin = false);
  // `name` is the latest version, by its number; or `name@version`.
  Result<InstalledProgram> Find(std::string_view program);
  Result<std::vector<InstalledProgram>> List();
  Result<std::string> ReadComponent(const InstalledProgram& program);
  Status Remove(std::string_view program);
  // Whether Add would have anything to refuse, before a component is looked at.
  Status CheckOverwrite(const host::Manifest& manifest, std::string_view wasm_hash,
                        std::string_view user, bool overwrite, bool admin = false);

 private:
  Registry(std::string dir, sqlite3* db) : dir_(std::move(dir)), db_(db) {}
  std::string BlobPath(std::string_view hash) const;
  Status RemoveOrphans();
  Status CheckOverwriteLocked(const host::Manifest& manifest, std::string_view wasm_hash,
                              std::string_view user, bool overwrite, bool admin);
  Result<std::vector<InstalledProgram>> Select(std::string_view name);  // "" = all

  const std::string dir_;
  std::mutex mutex_;
  sqlite3* db_;
};

// Is `a` an older version than `b`? By the rules of semver.org, prereleases too.
bool OlderVersion(std::string_view a, std::string_view b);

}  // namespace pie::server
