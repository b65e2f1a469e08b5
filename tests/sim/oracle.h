// Oracle: computes sequences under adapters from their beginning, on a dummy device of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/dummy/dummy_backend.h"

namespace pie::sim {

// A token that was fed under an adapter; 0: the model alone.
struct AdaptedSlot {
  DummySlot slot;
  uint32_t adapter = 0;
};

class Oracle {
 public:
  static constexpr uint32_t kAdapters = 3;

  explicit Oracle(const DummyOptions& options);
  // The token after a sequence.
  uint32_t Greedy(const std::vector<AdaptedSlot>& slots);
  DeviceAdapterPtr WeightsOf(uint32_t adapter) const {
    return adapter == 0 ? nullptr : adapters_[adapter - 1];
  }

 private:
  std::unique_ptr<Backend> device_;
  std::vector<DeviceAdapterPtr> adapters_;
};

}  // namespace pie::sim
