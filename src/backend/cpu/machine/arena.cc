#include "backend/cpu/machine/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "base/round_up.h"

namespace pie::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kChunk = size_t{64} << 20;

}  // namespace

Arena::~Arena() {
  for (const auto& chunk : chunks_) munmap(chunk.data(), chunk.size());
}

Result<std::byte*> Arena::Allocate(size_t bytes) {
  const size_t taken = RoundUp(bytes, 64);
  if (rest_.size() < taken) {
    const size_t size = std::max(kChunk, RoundUp(taken, kHugePage));
    // Maps one huge page more to be able to align the chunk, then unmaps the ends.
    void* const memory = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return Fail(Code::kExhausted, "cannot allocate {} MB of memory for the model", size >> 20);
    }
    auto* const start = static_cast<std::byte*>(memory);
    const size_t before =
        RoundUp(reinterpret_cast<uintptr_t>(start), kHugePage) - reinterpret_cast<uintptr_t>(start);
    if (before > 0) munmap(start, before);
    if (before < kHugePage) munmap(start + before + size, kHugePage - before);
    rest_ = {start + before, size};
    chunks_.push_back(rest_);
    // only a hint: without huge pages, reads are slower
    madvise(rest_.data(), size, MADV_HUGEPAGE);
  }
  std::byte* const result = rest_.data();
  rest_ = rest_.subspan(taken);
  return result;
}

size_t Arena::mapped_bytes() const {
  size_t total = 0;
  for (const auto& chunk : chunks_) total += chunk.size();
  return total;
}

}  // namespace pie::cpu
