// TOML files that only their owner may read or write: keys of users and hashes of API tokens.
// PrivateTomlLock: held while such a file is read, changed and written again.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <utility>

#include "base/result.h"

namespace pie::server {

// Returns the tables of a file; none if there is no such file. Fails if other users of the machine
// can read or write it.
Result<toml::table> ReadPrivateToml(const std::string& path);

// Commands may run at the same time: one that wrote what it had read before another one's change
// would undo that change, and so give a revoked key back. Take makes the folder of the file, and
// waits for other holders, in this process or another. It fails if the file beside it that carries
// the lock cannot be opened. Readers need no lock, because files are written whole.
class PrivateTomlLock {
 public:
  static Result<PrivateTomlLock> Take(const std::string& path);
  PrivateTomlLock(PrivateTomlLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  PrivateTomlLock& operator=(PrivateTomlLock&&) = delete;
  ~PrivateTomlLock();

 private:
  explicit PrivateTomlLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace pie::server
