// Arena: memory for weights and pages, allocated in chunks and freed all at once.
//
// Chunks are aligned to huge pages and request them, because a decode step mostly reads weights,
// and small pages cost it several per cent. Memory is zeroed and becomes resident when it is
// written.
//
// Owned by one backend; allocations live as long as the arena. One thread at a time.
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

  // Returns memory that is zeroed and aligned to 64 bytes. Fails if the system has no more memory.
  Result<std::byte*> Allocate(size_t bytes);

  size_t mapped_bytes() const;

 private:
  std::vector<std::span<std::byte>> chunks_;
  std::span<std::byte> rest_;  // the unused part of the newest chunk
};

}  // namespace pie::cpu
