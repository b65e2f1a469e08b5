// AuthorizedUsers: the users who may connect and their public keys, in authorized_users.toml: one
// table per user, one entry per key. The file is refused if others can read it. `pie auth` edits
// it; a running server reads it again when it has changed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/public_key.h"

namespace pie::server {

struct UserKey {
  std::string name;  // unique among the user's keys
  std::string text;  // as the user gave it
  PublicKey key;
};

using UserTable = std::map<std::string, std::vector<UserKey>, std::less<>>;

class AuthorizedUsers {
 public:
  explicit AuthorizedUsers(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

  // A missing file means no users.
  Result<UserTable> Read() const;
  // Replaces the user's key of the same name.
  Status Add(const std::string& user, const std::string& key_name, const std::string& key_text);
  // An empty `key_name` removes the user.
  Status Remove(const std::string& user, const std::string& key_name);

 private:
  Status Write(const UserTable& users) const;
  std::string path_;
};

// Checks that a name has 1 to 128 bytes of valid UTF-8 without control characters.
Status CheckUsername(std::string_view name);

}  // namespace pie::server
