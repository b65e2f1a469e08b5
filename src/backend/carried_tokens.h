// CarriedTokens: runs batches that take tokens from earlier ones (batch.h) on a device that knows
// nothing of it, one at a time. It is what makes an asynchronous device of a synchronous one.
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

  // Runs `batch` on `device` from its beginning to its end. `ticket` is what later batches call it.
  // A member whose carried token never came, because the earlier batch failed, fails.
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
