// The table of functions behind every WIT import. Built once; lives for ever.
#pragma once

#include "pie_bridge.h"

namespace pie::host {

const pie_bridge::HostTable& HostFunctions();

}  // namespace pie::host
