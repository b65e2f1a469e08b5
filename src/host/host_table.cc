#include "host/host_table.h"

#include "pie_host_table.h"

namespace pie::host {

const pie_bridge::HostTable& HostFunctions() {
  return kHostTable;
}

}  // namespace pie::host
