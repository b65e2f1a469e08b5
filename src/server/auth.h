// Auth: decides who a client is. While authentication is off, a client is the user that it names.
// While it is on, the client signs a challenge that is valid for one attempt. The internal token,
// which is new at every start, is for programs of the user that runs the server. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
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

  // Sets the hash of the server's certificate. A challenge then says that a signature may be bound
  // to it: it begins with kBinds, and a client that sees a certificate signs the challenge and the
  // hash of that certificate. So another server that passes the challenge on cannot use the
  // signature. Clients that do not know of this sign the challenge alone.
  void BindTo(std::string certificate_hash) { binding_ = std::move(certificate_hash); }
  static constexpr std::string_view kBinds = "PIE-BIND";

  std::string NewChallenge() const;  // base64
  // Returns the same error for every failure, and takes as long for a user who does not exist as
  // for one who does, so that a stranger learns nothing about users. Takes up to milliseconds for
  // each key of the user, without holding a lock.
  Status Verify(std::string_view user, std::string_view challenge, std::string_view signature);
  bool IsToken(std::string_view token) const;  // takes the same time for right and wrong tokens
  // The user to whom the internal token or an API key belongs.
  std::optional<std::string> UserOfToken(std::string_view token);
  // How many users have keys of either kind.
  Result<size_t> CountUsers() const;
  // The user of an HTTP request that shows this API key, which may be empty: `local` while
  // authentication is off.
  std::optional<std::string> UserOf(std::string_view key);

 private:
  Result<std::shared_ptr<const UserTable>> Current();  // the caller holds the mutex
  // The keys of a user. If there is no such user, the keys of another user, always the same one, so
  // that the check takes as long. Null if there are no users.
  const std::vector<UserKey>* KeysToTry(const UserTable& users, std::string_view user,
                                        bool* exists) const;
  const bool enabled_;
  const AuthorizedUsers users_;
  const Tokens tokens_;
  const std::string token_;
  std::string binding_;  // the hash of the certificate; empty: none
  std::mutex mutex_;
  std::shared_ptr<const UserTable> table_ = std::make_shared<UserTable>();
  int64_t read_at_ns_ = -1;  // modification time of the file that table_ was read from
  TokenTable token_table_;
  int64_t tokens_read_at_ns_ = -1;
};

}  // namespace pie::server
