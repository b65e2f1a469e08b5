// Included by the host functions (src/host/api_*.cc). Their declarations are generated from wit/
// (pie_host_api.h). Each file implements one interface or a few: validate → translate → call →
// translate back.
#pragma once

#include <cstdint>
#include <span>

#include "abi/text.h"
#include "base/result.h"
#include "host/engine.h"
#include "host/process.h"
#include "pie_host_api.h"

namespace pie::host {

using abi::ToStr;
using abi::View;
using pie_bridge::Str;
using pie_bridge::Words;

// The number of the engine's model behind a handle.
inline Result<uint32_t> ModelIndex(Process& process, uint32_t handle) {
  return PIE_TRY(process.handles().models.Get(handle))->index;
}

// A new handle of a model, without options.
inline Result<uint32_t> NewModel(Process& process, uint32_t index) {
  return process.handles().models.Emplace(ModelHandle{index, {}, process.NewCharge()});
}

// The model behind a handle, and its scheduler.
inline Result<LoadedModel*> ModelOf(Process& process, uint32_t handle) {
  return &process.engine().models()[PIE_TRY(ModelIndex(process, handle))];
}

}  // namespace pie::host
