// Records a session with an inferlet as a test: the input, the messages of both sides, what the
// model said, and how the inferlet ended. The test can be played again without the model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "cli/config.h"
#include "cli/testing/test_engine.h"

namespace pie::cli {

// Runs the inferlet with the first model of `config`. The lines of standard input are the messages
// of the client. The client leaves after the last line, when the inferlet has been quiet for a
// while. Writes the test to `path`, which must not exist.
Status RecordTest(Config config, const TestProgram& program, const nlohmann::json& input,
                  const std::string& path, bool quiet);

}  // namespace pie::cli
