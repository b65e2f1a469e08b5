// Runs one test of an inferlet and lists the results that were not as expected.
#pragma once

#include <string>
#include <vector>

#include "cli/interrupts.h"
#include "cli/testing/test_engine.h"
#include "cli/testing/test_file.h"

namespace pie::cli {

// Returns the problems; none if the test passes. Blocks until the inferlet has ended.
std::vector<std::string> RunTest(TestEngine& engine, const host::Manifest& manifest,
                                 const TestCase& test, Interrupts& interrupts);

}  // namespace pie::cli
