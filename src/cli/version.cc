#include "cli/version.h"

#include <build_commit.h>  // made by scripts/write_commit.sh
#include <fmt/format.h>

namespace pie::cli {
namespace {

#ifdef PIE_CUDA
constexpr const char* kDevices = "cpu, cuda, dummy";
#else
constexpr const char* kDevices = "cpu, dummy";
#endif

}  // namespace

std::string VersionText() {
  return fmt::format("pie {} (commit {}, devices: {})", PIE_VERSION, kBuildCommit, kDevices);
}

}  // namespace pie::cli
