// pie new and pie build, which bakery implements.
#pragma once

#include <string>
#include <vector>

namespace pie::cli {

// Returns the path of bakery, beside this program or on the PATH; empty if it is not installed.
std::string FindBakery();
// Replaces this process by bakery. Returns only on failure, with the exit code.
int ExecBakery(const std::vector<std::string>& arguments);

}  // namespace pie::cli
