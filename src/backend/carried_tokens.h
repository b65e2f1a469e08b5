// CarriedTokens: runs batches that take tokens from earlier ones (batch.h), one at a time, on a
// device that does not support this. Asynchronous devices are made of synchronous ones with it.
//
// Owner: one thread, that of the device.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "backend/backend.h"

namespace pie {

class CarriedTokens {
 public:
  // Remembers the tokens of the last `batches` batches.
  explicit CarriedTokens(size_t batches) : batches_(batches) {}

  // Runs `batch` on `device` from its beginning to its end. Later batches refer to it by `ticket`.
  // If the earlier batch failed, the members that carry a token from it fail.
  Result<BatchOutput> Run(Backend& device, BatchTicket ticket, const Batch& batch);

 private:
  // The first token that each member of a batch chose.
  struct Chosen {
    BatchTicket ticket = 0;
    std::vector<std::optional<uint32_t>> tokens;
  };

  Result<BatchOutput> RunWithTokens(Backend& device, const Batch& batch) const;
  std::optional<uint32_t> TokenOf(const Batch::CarriedToken& carried) const;

  const size_t batches_;
  std::deque<Chosen> chosen_;
};

}  // namespace pie
