// Adapters on a device.
//
// A device makes its own form of an adapter's weights (Backend::LoadAdapter), which is immutable: a
// changed adapter is another one, with another version. Passes name it, and it stays in memory as
// long as a reference to it exists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace pie {

class DeviceAdapter {
 public:
  virtual ~DeviceAdapter() = default;
  virtual size_t bytes() const = 0;  // of the device's memory
};
using DeviceAdapterPtr = std::shared_ptr<const DeviceAdapter>;

// Adapters by the versions that rows name (RowAdapter in kv/rows.h).
using AdaptersByVersion = std::vector<std::pair<uint64_t, DeviceAdapterPtr>>;

}  // namespace pie
