#include "cli/program_file.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "cli/arguments.h"
#include "cli/terminal.h"

namespace pie::cli {
namespace {

constexpr size_t kMaxComponentBytes = 512ull << 20;

}  // namespace

Result<std::string> ReadComponent(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error)
    return Fail(Code::kNotFound, "cannot read the component {}: {}", path, error.message());
  if (size > kMaxComponentBytes) {
    return Fail(Code::kExhausted, "{} has {} MiB; a component may have at most {} MiB", path,
                size >> 20, kMaxComponentBytes >> 20);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail(Code::kNotFound, "cannot read the component {}", path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<nlohmann::json> MakeInput(const std::string& given,
                                 const std::vector<std::string>& arguments,
                                 const host::Manifest& manifest) {
  nlohmann::json input = nlohmann::json::object();
  if (!given.empty()) input = PIE_TRY(ReadInput(given, host::Limits{}.max_input_bytes));
  if (!arguments.empty()) {
    std::vector<std::string> texts;
    for (const host::Parameter& parameter : manifest.parameters) {
      if (parameter.type == host::Parameter::Type::kString) texts.push_back(parameter.name);
    }
    nlohmann::json trailing = PIE_TRY(ParseArguments(arguments, texts));
    if (!input.is_object()) {
      return Fail(Code::kInvalid,
                  "--input is not a JSON object, so arguments after -- cannot be added to it");
    }
    input.update(trailing);
  }
  for (const std::string& notice : manifest.notices) fmt::print(stderr, "warning: {}\n", notice);
  for (const std::string& warning : manifest.Warnings(input)) {
    fmt::print(stderr, "warning: {}\n", warning);
  }
  return input;
}

bool AwaitOptimiser(host::Engine& engine, const std::string& program, const Interrupts& interrupts,
                    bool quiet) {
  if (!engine.Optimising(program)) return true;
  Spinner spinner("optimising the code for later runs (Ctrl-C skips this)", !quiet);
  while (engine.Optimising(program) && !interrupts.interrupted()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return !interrupts.interrupted();
}

}  // namespace pie::cli
