// MappingGuard: keeps the process alive when a file that it has mapped is truncated by another
// process. Reading beyond the new end of such a file raises SIGBUS, which would end the process.
// While a guard exists, the lost part of the mapping reads as zeros instead, and `lost` says so. A
// reader checks `lost` after reading, and reports the file as damaged. What is written to the lost
// part goes nowhere.
//
// Any thread may make guards and read mappings. A guard costs nothing until something is lost. At
// most 16,384 mappings can be guarded; further ones are not.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace pie {

class MappingGuard {
 public:
  MappingGuard() = default;
  // `mapping` begins at a page and stays mapped as long as the guard lives.
  explicit MappingGuard(std::span<const std::byte> mapping);
  ~MappingGuard();
  MappingGuard(MappingGuard&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  MappingGuard& operator=(MappingGuard&& other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }

  // Whether a part of the mapping was read that is no longer in the file.
  bool lost() const;

  struct Slot;  // of the table that the signal handler reads

 private:
  Slot* slot_ = nullptr;
};

}  // namespace pie
