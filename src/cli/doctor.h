// pie doctor: checks that everything Pie needs is installed, and prints how to fix each problem.
#pragma once

namespace pie::cli {

// Returns 0 if there is no problem, else 1.
int Doctor();

}  // namespace pie::cli
