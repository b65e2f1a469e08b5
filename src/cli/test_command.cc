#include "cli/test_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "cli/bakery.h"
#include "cli/config.h"
#include "cli/interrupts.h"
#include "cli/program_file.h"
#include "cli/terminal.h"
#include "cli/testing/record.h"
#include "cli/testing/test_engine.h"
#include "cli/testing/test_file.h"
#include "cli/testing/test_run.h"

namespace pie::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

Result<host::Manifest> OpenManifest(const TestOptions& options) {
  const fs::path path = fs::path(options.folder) / "Pie.toml";
  if (!fs::exists(path)) {
    return Fail(Code::kNotFound, "{} does not exist; name the folder of an inferlet, which has one",
                path.string());
  }
  return host::ReadManifest(path.string());
}

Result<TestProgram> OpenProgram(const TestOptions& options, host::Manifest manifest) {
  TestProgram program{.manifest = std::move(manifest), .component = {}};
  std::string path = options.path;
  if (path.empty()) {
    // One file for each folder, so that a build can reuse files of the previous one.
    const size_t hash = std::hash<std::string>{}(fs::canonical(options.folder).string());
    path = fmt::format("{}/tests/{}-{:016x}.wasm", CacheDir(), program.manifest.name, hash);
    if (RunBakery({"build", options.folder, "-o", path, "--quiet"}) != 0) {
      return Fail(Code::kInvalid, "the inferlet could not be built, so no test was run");
    }
  }
  program.component = PIE_TRY(ReadComponent(path));
  return program;
}

Result<std::vector<std::string>> FindFiles(const TestOptions& options) {
  std::vector<std::string> places = options.tests;
  if (places.empty()) places.push_back((fs::path(options.folder) / "tests").string());
  std::vector<std::string> files;
  for (const std::string& place : places) {
    if (!fs::is_directory(place)) {
      if (!fs::exists(place)) {
        return Fail(Code::kNotFound,
                    "{} does not exist; write tests there, or record one with "
                    "`pie test {} --record NAME`",
                    place, options.folder);
      }
      files.push_back(place);
      continue;
    }
    const size_t first = files.size();
    for (const auto& entry : fs::directory_iterator(place)) {
      if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
  }
  if (files.empty()) {
    return Fail(Code::kNotFound, "there are no .toml files in {}", fmt::join(places, ", "));
  }
  return files;
}

// The engine's part of the config; tests bring their own model.
Result<Config> TestConfig(const std::string& path) {
  if (!path.empty()) return ReadConfig(path);
  Config config;
  config.runtime.cache_dir = CacheDir() + "/code";
  return config;
}

struct Counts {
  size_t passed = 0, failed = 0;
};

class Runner {
 public:
  Runner(const TestOptions& options, Config config, TestProgram program)
      : options_(options), config_(std::move(config)), program_(std::move(program)) {}

  Status RunFile(const std::string& path, const std::vector<TestCase>& tests) {
    std::unique_ptr<TestEngine> engine;
    bool named = false;
    for (size_t i = 0; i < tests.size() && !interrupts_.interrupted(); ++i) {
      if (!Chosen(tests, i)) continue;
      if (!std::exchange(named, true) && !options_.quiet) fmt::print("{}\n", path);
      const auto began = Clock::now();
      if (!tests[i].continues || engine == nullptr) {
        engine.reset();
        engine = PIE_TRY(StartEngineFor(tests[i]));
      }
      const auto problems = RunTest(*engine, program_.manifest, tests[i], interrupts_);
      Report(path, tests[i], problems, Clock::now() - began);
    }
    return {};
  }

  Counts counts() const { return counts_; }
  bool interrupted() const { return interrupts_.interrupted(); }

 private:
  // A test that others continue runs if one of those was chosen.
  bool Chosen(const std::vector<TestCase>& tests, size_t i) const {
    do {
      if (tests[i].name.find(options_.only) != std::string::npos) return true;
    } while (++i < tests.size() && tests[i].continues);
    return false;
  }

  Result<std::unique_ptr<TestEngine>> StartEngineFor(const TestCase& test) {
    std::unique_ptr<Spinner> spinner;
    auto engine = PIE_TRY(TestEngine::Start(config_, program_, test, [&] {
      spinner = std::make_unique<Spinner>("compiling " + program_.manifest.name, !options_.quiet);
    }));
    spinner.reset();
    // Otherwise the engine of every test would compile it again.
    AwaitOptimiser(engine->engine(), program_.manifest.id(), interrupts_, options_.quiet);
    return engine;
  }

  void Report(const std::string& path, const TestCase& test,
              const std::vector<std::string>& problems, Clock::duration took) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
    ++(problems.empty() ? counts_.passed : counts_.failed);
    if (problems.empty()) {
      if (!options_.quiet) {
        fmt::print("  {} {} {}\n", Green("ok  ", STDOUT_FILENO), test.name,
                   Dim(fmt::format("({} ms)", ms), STDOUT_FILENO));
      }
      return;
    }
    fmt::print("  {} {} ({}:{})\n", Red("FAIL", STDOUT_FILENO), test.name, path, test.line);
    for (const std::string& problem : problems) {
      std::string indented = "       ";
      for (const char c : Harmless(problem)) {
        indented += c;
        if (c == '\n') indented += "       ";
      }
      fmt::print("{}\n", indented);
    }
    std::fflush(stdout);
  }

  const TestOptions& options_;
  const Config config_;
  const TestProgram program_;
  Interrupts interrupts_;
  Counts counts_;
};

Result<int> RunChecked(const TestOptions& options) {
  host::Manifest manifest = PIE_TRY(OpenManifest(options));
  if (!options.record.empty()) {
    const fs::path folder =
        options.tests.empty() ? fs::path(options.folder) / "tests" : fs::path(options.tests[0]);
    const std::string path = (folder / (options.record + ".toml")).string();
    const TestProgram program = PIE_TRY(OpenProgram(options, std::move(manifest)));
    Config config = PIE_TRY(ReadConfig(options.config));
    if (options.dummy) UseDummy(config);
    const auto input = PIE_TRY(MakeInput("", options.arguments, program.manifest));
    PIE_RETURN_IF_ERROR(RecordTest(std::move(config), program, input, path, options.quiet));
    fmt::print(stderr, "{}\n", Dim("recorded " + path));
    return 0;
  }
  if (!options.arguments.empty()) {
    return Fail(Code::kInvalid,
                "arguments after -- are the input of a recorded run (--record NAME); tests have "
                "their own 'input'");
  }
  std::vector<std::pair<std::string, std::vector<TestCase>>> files;
  for (std::string& path : PIE_TRY(FindFiles(options))) {
    auto tests = PIE_TRY(ReadTests(path));
    files.emplace_back(std::move(path), std::move(tests));
  }
  Config config = PIE_TRY(TestConfig(options.config));
  TestProgram program = PIE_TRY(OpenProgram(options, std::move(manifest)));
  Runner runner(options, std::move(config), std::move(program));
  for (const auto& [path, tests] : files) PIE_RETURN_IF_ERROR(runner.RunFile(path, tests));
  const auto [passed, failed] = runner.counts();
  if (runner.interrupted()) return kInterrupted;
  if (passed + failed == 0) {
    return Fail(Code::kNotFound, "no test has '{}' in its name", options.only);
  }
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace

void AddTestOptions(CLI::App& command, TestOptions& options) {
  command.add_option("folder", options.folder, "the inferlet's folder (default: this one)");
  command.add_option("-p,--path", options.path, "test this component; do not build the folder");
  command.add_option("-t,--tests", options.tests,
                     "files of tests, or folders of them (default: tests/ in the folder)");
  command.add_option("-k,--only", options.only, "run the tests that have this text in their names");
  command.add_option("-c,--config", options.config,
                     "config file of the engine (default: none; the model is always scripted)");
  command.add_option("--record", options.record,
                     "run the inferlet on the configured model and record a test of this name; "
                     "lines of standard input are messages to it, arguments after -- its input");
  command.add_flag("--dummy", options.dummy, "record with the dummy model");
  command.add_flag("-q,--quiet", options.quiet, "print failures and the counts only");
}

int Test(const TestOptions& options) {
  try {
    auto code = RunChecked(options);
    return code ? *code : ReportError(code.error().text);
  } catch (const std::exception& error) {
    return ReportError(error.what());
  }
}

}  // namespace pie::cli
