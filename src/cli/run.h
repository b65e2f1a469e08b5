// pie run: runs one inferlet in its own engine and prints its output on this terminal.
#pragma once

#include <string>
#include <vector>

namespace pie::cli {

struct RunOptions {
  std::string program;   // NAME[@VERSION]
  std::string path;      // the component
  std::string manifest;  // Pie.toml
  std::string config;
  std::string input;  // JSON, @file or -
  std::string log;
  std::vector<std::string> arguments;
  bool stream = false;  // --stdout
  bool debug = false;
  bool quiet = false;
  std::string dummy;     // --dummy: empty if it is not given (config.h)
  bool escapes = false;  // let the inferlet control the terminal
};

// Returns the exit code: 0, 1, or 130 after Ctrl-C.
int Run(const RunOptions& options);

}  // namespace pie::cli
