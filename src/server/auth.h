// Auth: who a client is. Off, it is whoever it says. On, it signs a challenge that is good for one
// try. The internal token, made anew at every start, is for programs of the machine's own user.
// Any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/users.h"

namespace pie::server {

class Auth {
 public:
  static constexpr std::string_view kInternalUser = "internal";

  Auth(bool enabled, std::string users_path);
  bool enabled() const { return enabled_; }
  const std::string& token() const { return token_; }

  std::string NewChallenge() const;  // base64
  // The same error whatever is wrong: who may connect is nobody's business.
  Status Verify(std::string_view user, std::string_view challenge, std::string_view signature);
  bool IsToken(std::string_view token) const;  // takes the same time, right or wrong

 private:
  Result<const UserTable*> Current();  // with the mutex held
  const bool enabled_;
  const Users users_;
  const std::string token_;
  std::mutex mutex_;
  UserTable table_;
  int64_t read_at_ns_ = -1;  // the file's own time
};

}  // namespace pie::server
