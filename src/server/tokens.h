// Tokens: the API keys of HTTP clients, in api_tokens.toml. Only a hash of each key is stored; the
// key itself is shown once, when it is made. `pie auth token` edits the file; a running server
// reads it again when it has changed.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pie::server {

struct Token {
  std::string name;     // unique
  std::string user;     // on whose behalf requests with it are served
  std::string created;  // a date
};

using TokenTable = std::map<std::string, Token, std::less<>>;  // by the hash of the key

class Tokens {
 public:
  explicit Tokens(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

  // A missing file means no tokens.
  Result<TokenTable> Read() const;
  // Makes a key and returns it.
  Result<std::string> Create(const std::string& user, const std::string& name) const;
  Status Revoke(const std::string& name) const;
  // A key has 256 random bits, so a plain hash of it cannot be searched.
  static std::string HashOf(std::string_view key);

 private:
  Status Write(const TokenTable& tokens) const;
  std::string path_;
};

}  // namespace pie::server
