// Buffers aligned to cache lines, so that a vector load or store touches one line, not two.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace pie::cpu {

template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <class U>
  explicit(false) LineAllocator(const LineAllocator<U>& /*other*/) {}
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* memory, size_t /*count*/) { ::operator delete(memory, kLine); }
  bool operator==(const LineAllocator& /*other*/) const { return true; }
};

template <class T>
using AlignedVector = std::vector<T, LineAllocator<T>>;

// Prefetches a cache line for writing. Stores retire in order, and each waits until its core owns
// the line. (Compilers emit prefetchw only for targets known to have it; older processors ignore
// it.)
inline void PrefetchForWrite(const void* line) {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
}
inline void PrefetchForWrite(const void* memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) PrefetchForWrite(static_cast<const char*>(memory) + i);
}
inline void PrefetchForRead(const void* memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(memory) + i);
}

// Returns the number of floats between rows for a kernel that writes the same columns of many rows
// in succession. It is an odd number of cache lines, because lines a power of two apart compete for
// the few ways of one cache set.
constexpr size_t RowStride(size_t columns) {
  return ((columns + 15) / 16 | 1) * 16;
}

}  // namespace pie::cpu
