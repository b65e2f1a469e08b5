// Internal to attention: the partial results of query lines over a span of keys, and their merging.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "backend/cpu/machine/cpu_features.h"

namespace pie::cpu::attention {

inline constexpr float kNothing = -std::numeric_limits<float>::infinity();  // maximum over no keys

// Weights relative to exp(max), their sum, and the weighted sum of values. Two partials are merged
// by rescaling them to a common maximum. A view of memory with room for lines rounded up to 16.
struct Partial {
  float* max;
  float* sum;
  float* values;  // [lines, head_dim]

  static constexpr size_t Room(uint32_t lines) { return size_t{lines + 15} / 16 * 16; }
  static constexpr size_t Floats(uint32_t lines, uint32_t head_dim) {
    return Room(lines) * (2 + size_t{head_dim});
  }
  static Partial In(float* memory, uint32_t lines) {
    return {memory, memory + Room(lines), memory + 2 * Room(lines)};
  }
};

// Many partials of one size, in memory that is reused.
class Partials {
 public:
  void Resize(uint32_t count, uint32_t lines, uint32_t head_dim);
  Partial At(uint32_t i) const { return Partial::In(memory_.get() + i * stride_, lines_); }

 private:
  std::unique_ptr<float[]> memory_;
  size_t size_ = 0;
  size_t stride_ = 0;
  uint32_t lines_ = 0;
};

// Sets the state before the first key.
void Clear(const Partial& partial, uint32_t lines, uint32_t head_dim);
// Copies the lines of `from` that begin at `first`.
void CopyLines(const Partial& from, uint32_t first, uint32_t lines, uint32_t head_dim,
               const Partial& to);
// Merges a later span into the result of earlier ones.
void Merge(CpuLevel level, const Partial& from, uint32_t lines, uint32_t head_dim,
           const Partial& to);
// Sets out to x × factor, [n].
void Scale(CpuLevel level, const float* x, float factor, uint32_t n, float* out);

}  // namespace pie::cpu::attention
