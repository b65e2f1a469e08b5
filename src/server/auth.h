// Auth: decides who a client is. While authentication is off, a client is the user that it names.
// While it is on, the client signs a challenge that is valid for one attempt. The internal token,
// made anew at every start, is for programs of the machine's own user. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/tokens.h"
#include "server/users.h"

namespace pie::server {

class Auth {
 public:
  static constexpr std::string_view kInternalUser = "internal";

  static constexpr std::string_view kLocalUser = "local";

  // `tokens_path` is the file of API keys.
  Auth(bool enabled, std::string users_path, std::string tokens_path = "");
  bool enabled() const { return enabled_; }
  const std::string& token() const { return token_; }

  std::string NewChallenge() const;  // base64
  // Returns the same error for every failure, so that a stranger learns nothing about users.
  Status Verify(std::string_view user, std::string_view challenge, std::string_view signature);
  bool IsToken(std::string_view token) const;  // takes the same time for right and wrong tokens
  // The user to whom the internal token or an API key belongs.
  std::optional<std::string> UserOfToken(std::string_view token);
  // The user of an HTTP request that shows this API key, which may be empty: `local` while
  // authentication is off.
  std::optional<std::string> UserOf(std::string_view key);

 private:
  Result<const UserTable*> Current();  // the caller holds the mutex
  const bool enabled_;
  const Users users_;
  const Tokens tokens_;
  const std::string token_;
  std::mutex mutex_;
  UserTable table_;
  int64_t read_at_ns_ = -1;  // modification time of the file that table_ was read from
  TokenTable token_table_;
  int64_t tokens_read_at_ns_ = -1;
};

}  // namespace pie::server
