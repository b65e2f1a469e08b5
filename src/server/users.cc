#include "server/users.h"

#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "base/utf8.h"
#include "base/whole_file.h"
#include "server/limits.h"
#include "server/private_toml.h"

namespace pie::server {

Status CheckUsername(std::string_view name) {
  const bool control = std::ranges::any_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (name.empty() || name.size() > Limits{}.max_username_bytes || control ||
      ToValidUtf8(name) != name) {
    return Fail(Code::kInvalid, "a user name must have 1 to {} bytes and no control characters",
                Limits{}.max_username_bytes);
  }
  return {};
}

Result<UserTable> AuthorizedUsers::Read() const {
  UserTable users;
  const toml::table root = PIE_TRY(ReadPrivateToml(path_));
  for (const auto& [user, node] : root) {
    const toml::table* keys = node.as_table();
    if (keys == nullptr) {
      return Fail(Code::kInvalid, "{}:{}: '{}' must be a table of keys", path_,
                  node.source().begin.line, user.str());
    }
    for (const auto& [name, value] : *keys) {
      if (!value.is_string()) {
        return Fail(Code::kInvalid, "{}:{}: the key '{}' must be a text", path_,
                    value.source().begin.line, name.str());
      }
      std::string text = value.as_string()->get();
      auto key = PublicKey::Parse(text);
      if (!key) {
        return Fail(Code::kInvalid, "{}:{}: {}", path_, value.source().begin.line,
                    key.error().text);
      }
      users[std::string(user.str())].push_back(
          {std::string(name.str()), std::move(text), *std::move(key)});
    }
  }
  return users;
}

Status AuthorizedUsers::Add(const std::string& user, const std::string& key_name,
                            const std::string& key_text) {
  PIE_RETURN_IF_ERROR(CheckUsername(user));
  auto key = PIE_TRY(PublicKey::Parse(key_text));
  const PrivateTomlLock lock = PIE_TRY(PrivateTomlLock::Take(path_));
  UserTable users = PIE_TRY(Read());
  auto& keys = users[user];
  std::erase_if(keys, [&](const UserKey& old) { return old.name == key_name; });
  keys.push_back({key_name, key_text, std::move(key)});
  return Write(users);
}

Status AuthorizedUsers::Remove(const std::string& user, const std::string& key_name) {
  const PrivateTomlLock lock = PIE_TRY(PrivateTomlLock::Take(path_));
  UserTable users = PIE_TRY(Read());
  auto found = users.find(user);
  if (found == users.end())
    return Fail(Code::kNotFound, "unknown user '{}'; see `pie auth list`", user);
  if (!key_name.empty() &&
      std::erase_if(found->second, [&](const UserKey& key) { return key.name == key_name; }) == 0) {
    return Fail(Code::kNotFound, "{} has no key '{}'", user, key_name);
  }
  if (key_name.empty() || found->second.empty()) users.erase(found);
  return Write(users);
}

Status AuthorizedUsers::Write(const UserTable& users) const {
  toml::table root;
  for (const auto& [user, keys] : users) {
    toml::table table;
    for (const UserKey& key : keys) table.insert_or_assign(key.name, key.text);
    root.insert_or_assign(user, std::move(table));
  }
  std::ostringstream text;
  text << "# The users who may connect, and their public keys. Written by `pie auth`.\n"
       << root << "\n";
  return WriteWhole(path_, text.str(), 0600);
}

}  // namespace pie::server
