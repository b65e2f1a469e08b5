#include "cli/program_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
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
    std::vector<std::string> texts, names;
    for (const host::Parameter& parameter : manifest.parameters) {
      names.push_back(parameter.name);
      if (parameter.type == host::Parameter::Type::kString) texts.push_back(parameter.name);
    }
    nlohmann::json trailing = PIE_TRY(ParseArguments(arguments, texts, names));
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
  constexpr std::string_view kNotice = "optimising the code for later runs (Ctrl-C skips this)";
  Spinner spinner(std::string(kNotice), !quiet);
  bool told = quiet || IsTerminal(STDERR_FILENO);  // the spinner shows the notice there
  const auto start = std::chrono::steady_clock::now();
  while (engine.Optimising(program) && !interrupts.interrupted()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (told || std::chrono::steady_clock::now() - start < std::chrono::seconds(1)) continue;
    fmt::print(stderr, "{}\n", kNotice);
    told = true;
  }
  return !interrupts.interrupted();
}

}  // namespace pie::cli
