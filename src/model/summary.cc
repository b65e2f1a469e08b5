#include "model/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/config.h"
#include "model/model_files.h"

namespace pie {
namespace {

std::string Count(double parameters) {
  return parameters < 1e9 ? fmt::format("{:.0f} M", parameters / 1e6)
                          : fmt::format("{:.1f} B", parameters / 1e9);
}

std::string Describe(const ModelConfig& config, const TensorTable& tensors) {
  std::map<DType, uint64_t> by_type;
  uint64_t parameters = 0;
  for (const Tensor& tensor : tensors.all()) {
    by_type[tensor.dtype] += tensor.elements();
    parameters += tensor.elements();
  }
  const auto most = std::ranges::max_element(by_type, {}, [](const auto& e) { return e.second; });
  return fmt::format("{}, {} parameters, {}, {} tokens of context", NameOf(config.architecture),
                     Count(static_cast<double>(parameters)),
                     most == by_type.end() ? "no weights" : NameOf(most->first),
                     config.context_length);
}

}  // namespace

Result<std::string> Summarize(const std::filesystem::path& path) {
  const ModelFiles files = PIE_TRY(ModelFiles::Open(path));
  return Describe(files.config(), files.tensors());
}

}  // namespace pie
