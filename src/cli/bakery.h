// pie new, pie build: hand over to bakery.
#pragma once

#include <string>
#include <vector>

namespace pie::cli {

// Where bakery is: beside this program, or on the PATH; empty if nowhere.
std::string FindBakery();
// Replaces this process by bakery. Returns only on failure, with the exit code.
int ExecBakery(const std::vector<std::string>& arguments);

}  // namespace pie::cli
