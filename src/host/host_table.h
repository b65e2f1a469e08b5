// The table of functions behind every WIT import, generated from wit/. It is a constant.
#pragma once

#include "pie_bridge.h"

namespace pie::host {

const pie_bridge::HostTable& HostFunctions();

}  // namespace pie::host
