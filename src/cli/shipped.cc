#include "cli/shipped.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "host/hash.h"
#include "host/manifest.h"
#include "server/auth.h"

namespace pie::cli {
namespace {

std::string ReadWhole(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string SharedFolder(std::string_view name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : (self.parent_path().parent_path() / "share/pie" / name).string();
}

}  // namespace

std::string ShippedDir() {
  return SharedFolder("inferlets");
}

std::string WebDir() {
  return SharedFolder("web");
}

Result<bool> InstallShipped(server::Registry& registry, std::string_view name) {
  const std::filesystem::path folder = ShippedDir();
  const auto component = folder / fmt::format("{}.wasm", name);
  const auto manifest = folder / fmt::format("{}.toml", name);
  std::error_code error;
  if (!std::filesystem::exists(component, error) || !std::filesystem::exists(manifest, error)) {
    return registry.Find(name).has_value();
  }
  const std::string text = ReadWhole(manifest);
  const std::string bytes = ReadWhole(component);
  const auto parsed = PIE_TRY(host::ParseManifest(text, manifest.string()));
  const auto installed = registry.Find(parsed.id());
  if (installed && installed->wasm_hash == host::Blake3Hex(bytes)) return true;
  PIE_RETURN_IF_ERROR(
      registry.Add(text, bytes, server::Auth::kInternalUser, /*overwrite=*/true, /*admin=*/true));
  return true;
}

}  // namespace pie::cli
