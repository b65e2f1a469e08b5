// pie test: builds an inferlet and runs its tests (tests/*.toml) on a scripted model.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace pie::cli {

struct TestOptions {
  std::string folder = ".";            // with the Pie.toml
  std::string path;                    // the component; empty: it is built
  std::vector<std::string> tests;      // files or folders; empty: tests/ in the folder
  std::string only;                    // a part of the names of the tests to run
  std::string config;                  // of the engine; empty: the defaults
  std::string record;                  // the name of a test to record
  std::vector<std::string> arguments;  // of the recorded run
  bool dummy = false;                  // records with the dummy model
  bool quiet = false;                  // prints failures only
};

void AddTestOptions(CLI::App& command, TestOptions& options);

// Returns the exit code: 0, 1 if a test failed, or 130 after Ctrl-C.
int Test(const TestOptions& options);

}  // namespace pie::cli
