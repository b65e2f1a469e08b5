// Inside of attention: what a span of keys gives some query lines, and how spans are put together.
// Not for other files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "backend/cpu/machine/cpu_features.h"

namespace pie::cpu::attention {

inline constexpr float kNothing = -std::numeric_limits<float>::infinity();  // the maximum of no key

// Weights relative to exp(max), their sum, and the values weighted by them. Spans are merged by
// bringing them to a common maximum. A view of memory that has room for lines in whole sixteens.
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

// Many of one size, in memory that is kept.
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

// Before the first key.
void Clear(const Partial& partial, uint32_t lines, uint32_t head_dim);
// The lines of `from` from `first` on.
void CopyLines(const Partial& from, uint32_t first, uint32_t lines, uint32_t head_dim,
               const Partial& to);
// Adds a later span to what earlier ones gave.
void Merge(CpuLevel level, const Partial& from, uint32_t lines, uint32_t head_dim,
           const Partial& to);
// out = x × factor, [n].
void Scale(CpuLevel level, const float* x, float factor, uint32_t n, float* out);

}  // namespace pie::cpu::attention
