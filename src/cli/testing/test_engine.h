// TestEngine: an engine for one test, with a scripted model and folders of its own. Nothing that a
// test saves outlives it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "cli/config.h"
#include "cli/testing/test_file.h"
#include "host/engine.h"
#include "host/manifest.h"
#include "speech/script.h"

namespace pie::cli {

struct TestProgram {
  host::Manifest manifest;
  std::string component;
};

class TestEngine {
 public:
  // `config` is the engine's; its models are replaced by a scripted one.
  static Result<std::unique_ptr<TestEngine>> Start(Config config, const TestProgram& program,
                                                   const TestCase& test,
                                                   const std::function<void()>& on_compile);
  ~TestEngine();
  TestEngine(const TestEngine&) = delete;
  TestEngine& operator=(const TestEngine&) = delete;

  // Sets the state that a test begins with: the answers of its model, and files in /data.
  Status Prepare(const TestCase& test);
  host::Engine& engine() { return *engine_; }
  const Script& script() const { return *script_; }

 private:
  TestEngine() = default;

  std::filesystem::path folder_;  // holds /scratch and /data
  std::shared_ptr<Script> script_;
  std::unique_ptr<host::Engine> engine_;
};

// The user that tests run as.
inline constexpr const char* kTestUser = "local";

}  // namespace pie::cli
