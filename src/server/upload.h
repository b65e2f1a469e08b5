// Uploads: assembles chunks that arrive in order and checks the size of the whole. Belongs to one
// connection; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "host/byte_budget.h"
#include "server/limits.h"
#include "server/message.h"

namespace pie::server {

class Uploads {
 public:
  // The bytes of a finished upload, which are charged as long as this lives.
  struct Whole {
    std::string bytes;
    host::Charge charge;
  };
  explicit Uploads(const Limits& limits) : limits_(limits) {}

  // The user whose budget is charged for the uploads. It is set before the first chunk.
  void SetBudget(std::shared_ptr<host::ByteBudget> budget) { budget_ = std::move(budget); }
  // Adds a chunk to the upload `key`. Returns the whole with the last chunk. After an error, the
  // rest of that upload must be ignored; `Ignored` recognises its chunks.
  Result<std::optional<Whole>> Add(const std::string& key, const Chunk& chunk, size_t max_bytes);
  // Returns whether this is a chunk of an upload that has already failed.
  bool Ignored(const std::string& key, const Chunk& chunk);
  size_t size() const { return uploads_.size(); }

 private:
  struct Upload {
    uint32_t next = 0;
    uint32_t total = 0;
    std::string bytes;
    host::Charge charge;
    bool failed = false;
  };
  Status AddTo(Upload& upload, const Chunk& chunk, size_t max_bytes);

  const Limits& limits_;
  std::shared_ptr<host::ByteBudget> budget_;
  std::map<std::string, Upload> uploads_;
};

// Checks that the bytes have the hash that the sender gave. Takes about 1 ms for 1 MiB.
Status CheckHash(std::string_view bytes, std::string_view hash);

}  // namespace pie::server
