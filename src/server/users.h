// Users: who may connect, and with which keys: authorized_users.toml, one table a user, one entry a
// key. Readable by its owner alone, else it is refused. Edited by `pie auth`; a server reads it
// again when it changed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/public_key.h"

namespace pie::server {

struct UserKey {
  std::string name;  // of the key, among its user's
  std::string text;  // as it was given
  PublicKey key;
};

using UserTable = std::map<std::string, std::vector<UserKey>, std::less<>>;

class Users {
 public:
  explicit Users(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

  // No file means no users.
  Result<UserTable> Read() const;
  // One under that name is replaced.
  Status Add(const std::string& user, const std::string& key_name, const std::string& key_text);
  // An empty `key_name` removes the user.
  Status Remove(const std::string& user, const std::string& key_name);

 private:
  Status Write(const UserTable& users) const;
  std::string path_;
};

// What a user may be called: 1 to 128 bytes, printable, no control characters.
Status CheckUsername(std::string_view name);

}  // namespace pie::server
