#include "cli/model_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/models.h"
#include "cli/terminal.h"
#include "model/summary.h"

namespace pie::cli {
namespace {

std::string Megabytes(uint64_t bytes) {
  return fmt::format("{:.0f} MB", static_cast<double>(bytes) / 1e6);
}

// Returns a summary of the model, or the reason why it cannot be read.
std::string Described(const std::string& name) {
  auto path = FindModel(name);
  if (!path) return path.error().text;
  auto summary = Summarize(*path);
  return summary ? *summary : summary.error().text;
}

}  // namespace

int ListModels() {
  const std::vector<LocalModel> models = LocalModels();
  for (const LocalModel& model : models) {
    fmt::print("{:<28} {:>9}  {}{}\n", model.name, Megabytes(model.bytes), Described(model.name),
               model.name == kDefaultModel ? Dim("  (default)", STDOUT_FILENO) : "");
  }
  if (std::ranges::find(models, kDefaultModel, &LocalModel::name) == models.end()) {
    fmt::print("{:<28} {:>9}  {}\n", kDefaultModel, "98 MB",
               Dim("not downloaded yet; run: pie model download", STDOUT_FILENO));
  }
  return 0;
}

int DownloadModelCommand(const std::string& name) {
  const std::string wanted = name.empty() ? std::string(kDefaultModel) : name;
  if (Status status = DownloadModel(wanted); !status) return ReportError(status.error().text);
  fmt::print("downloaded {}: {}\n", wanted, Described(wanted));
  return 0;
}

int RemoveModelCommand(const std::string& name) {
  if (Status status = RemoveModel(name); !status) return ReportError(status.error().text);
  fmt::print("removed {}\n", name);
  return 0;
}

}  // namespace pie::cli
