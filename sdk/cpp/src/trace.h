// The report of an error that ended the run.
#pragma once

#include <string>

namespace inferlet::detail {

// Prints the lines of the program that the error of this message has passed, innermost first.
// Prints nothing if none is known.
void PrintTrace(const std::string& message);

}  // namespace inferlet::detail
