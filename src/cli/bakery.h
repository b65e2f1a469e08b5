// pie new and pie build, which bakery implements, and pie setup, which installs what bakery needs.
#pragma once

#include <string>
#include <vector>

namespace pie::cli {

// Returns the path of bakery, beside this program or on the PATH; empty if it is not installed.
std::string FindBakery();
// Replaces this process by bakery. Returns only on failure, with the exit code.
int ExecBakery(const std::vector<std::string>& arguments);
// Replaces this process by scripts/setup.sh of this installation or checkout. Returns only on
// failure.
int ExecSetup();

}  // namespace pie::cli
