#include "cli/inferlet_command.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <filesystem>

#include "base/whole_file.h"
#include "cli/config.h"
#include "cli/terminal.h"
#include "server/auth.h"
#include "server/limits.h"
#include "server/registry.h"

namespace pie::cli {
namespace {

Result<std::unique_ptr<server::Registry>> Open() {
  return server::Registry::Open(HomeDir() + "/programs");
}

Status List() {
  const auto programs = PIE_TRY(PIE_TRY(Open())->List());
  if (programs.empty())
    fmt::print("no inferlets yet; install one with: pie inferlet add OUT.wasm -m Pie.toml\n");
  for (const auto& program : programs) {
    fmt::print("{:<40} {:>8} KiB  {:%F}  {}\n", program.id(), program.bytes >> 10,
               fmt::gmtime(static_cast<std::time_t>(program.installed_at)), program.owner);
  }
  return {};
}

Status Show(const std::string& name) {
  const auto program = PIE_TRY(PIE_TRY(Open())->Find(name));
  const auto manifest = PIE_TRY(host::ParseManifest(program.manifest, program.id()));
  fmt::print("{}\n", program.id());
  if (!manifest.description.empty()) fmt::print("  {}\n", manifest.description);
  fmt::print("  component  {} KiB, blake3 {}\n", program.bytes >> 10, program.wasm_hash);
  fmt::print("  installed  {:%F %T} by {}\n",
             fmt::gmtime(static_cast<std::time_t>(program.installed_at)), program.owner);
  for (const host::Parameter& parameter : manifest.parameters) {
    fmt::print("  --{:<10} {}{}  {}\n", parameter.name, host::NameOf(parameter.type),
               parameter.optional ? ", optional" : "", parameter.description);
  }
  return {};
}

Status Add(const std::string& component, const std::string& given, bool overwrite) {
  namespace fs = std::filesystem;
  const std::string path =
      given.empty() ? (fs::path(component).parent_path() / "Pie.toml").string() : given;
  const server::Limits limits;
  const std::string wasm = PIE_TRY(ReadWhole(component, limits.max_upload_bytes));
  const std::string manifest = PIE_TRY(ReadWhole(path, limits.max_manifest_bytes));
  const auto parsed = PIE_TRY(host::ParseManifest(manifest, path));
  for (const std::string& notice : parsed.notices) fmt::print(stderr, "warning: {}\n", notice);
  if (!wasm.starts_with(std::string_view("\0asm", 4))) {
    return Fail(Code::kInvalid, "{} is not a WebAssembly component; make one with `pie build`",
                component);
  }
  const auto user = std::string(server::Auth::kInternalUser);
  PIE_RETURN_IF_ERROR(PIE_TRY(Open())->Add(manifest, wasm, user, overwrite, /*admin=*/true));
  fmt::print("installed {}\n", parsed.id());
  return {};
}

}  // namespace

int ListInferlets() {
  return ExitCode(List());
}

int ShowInferlet(const std::string& program) {
  return ExitCode(Show(program));
}

int AddInferlet(const std::string& component, const std::string& manifest, bool overwrite) {
  return ExitCode(Add(component, manifest, overwrite));
}

int RemoveInferlet(const std::string& program) {
  return ExitCode([&]() -> Status { return PIE_TRY(Open())->Remove(program); }());
}

}  // namespace pie::cli
