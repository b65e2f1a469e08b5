// Upload: chunks in order become a whole whose size and hash are checked. One connection's; not for
// several threads.
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
  // `budget` is shared by all connections.
  Uploads(const Limits& limits, std::shared_ptr<host::ByteBudget> budget)
      : limits_(limits), budget_(std::move(budget)) {}

  // Adds a chunk to the upload `key`; the whole, with the last one. After an error the rest of that
  // upload is to be ignored: `Ignored` says so for its chunks.
  Result<std::optional<std::string>> Add(const std::string& key, const Chunk& chunk,
                                         size_t max_bytes);
  // Is this a chunk of an upload that has failed already?
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
  const std::shared_ptr<host::ByteBudget> budget_;
  std::map<std::string, Upload> uploads_;
};

}  // namespace pie::server
