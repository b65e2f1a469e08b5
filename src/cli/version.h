// The text that `pie --version` prints.
#pragma once

#include <string>

namespace pie::cli {

// The version, the commit that was built, and the devices that this build can use.
std::string VersionText();

}  // namespace pie::cli
