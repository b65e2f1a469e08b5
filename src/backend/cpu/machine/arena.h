// Arena: memory for weights and pages, taken once and given back all at once.
//
// Chunks are aligned to huge pages and ask for them: reading weights is what a decode step does,
// and small pages cost it several per cent. Zeroed, and not resident before it is written.
//
// Owner: one backend; what was allocated lives as long as the arena. One thread at a time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"

namespace pie::cpu {

class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // 64-byte aligned and zeroed. Fails when the system has no more.
  Result<std::byte*> Allocate(size_t bytes);

  size_t mapped_bytes() const;

 private:
  std::vector<std::span<std::byte>> chunks_;
  std::span<std::byte> rest_;  // of the newest chunk
};

}  // namespace pie::cpu
