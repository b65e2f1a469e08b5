// Included by the host functions (src/host/api_*.cc). Their declarations are generated from wit/
// (pie_host_api.h). Each file implements one interface or a few: validate → translate → call →
// translate back.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "host/engine.h"
#include "host/process.h"
#include "pie_host_api.h"
#include "wasm/text.h"

namespace pie::host {

using pie_bridge::Str;
using pie_bridge::Words;
using wasm::ToStr;
using wasm::View;

// The model behind a handle, and its scheduler.
inline Result<LoadedModel*> ModelOf(Process& process, uint32_t handle) {
  uint32_t* index = PIE_TRY(process.handles().models.Get(handle));
  return &process.engine().models()[*index];
}

}  // namespace pie::host
