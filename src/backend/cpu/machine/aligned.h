// Buffers that begin at a cache line: a vector's load or store then touches one line, not two.
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

// Asks for a line that is soon written, as one's own: stores wait in order, each until no other
// core has its line. (Compilers ask so only where told that the processor can; one that cannot does
// nothing.)
inline void FetchToWrite(const void* line) {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
}
inline void FetchToWrite(const void* memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) FetchToWrite(static_cast<const char*>(memory) + i);
}
inline void FetchToRead(const void* memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(memory) + i);
}

// Floats from one row to the next where a kernel writes the same columns of many rows one after the
// other: whole lines, and an odd number of them, so that rows do not fight for the few places that
// a cache has for lines a power of two apart.
constexpr size_t RowStride(size_t columns) {
  return ((columns + 15) / 16 | 1) * 16;
}

}  // namespace pie::cpu
