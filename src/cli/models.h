// The models on this machine: those that `pie model download` fetched, and those that a config
// names by their path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pie::cli {

inline constexpr std::string_view kDefaultModel = "smollm2-135m-instruct";

std::filesystem::path ModelsDir();  // inside the cache folder

struct LocalModel {
  std::string name;  // name of its folder in ModelsDir(); owner/name for models of the hub
  uint64_t bytes = 0;
};
std::vector<LocalModel> LocalModels();  // by name

// Returns the path to open for `model`: a .gguf file or a Hugging Face folder (~ is the home
// folder), the only .gguf file in a folder, or a downloaded model by its name.
Result<std::string> FindModel(std::string_view model);

// Downloads a model by its name, or owner/name from the Hugging Face hub. Shows progress.
Status DownloadModel(std::string_view name);
Status RemoveModel(std::string_view name);

}  // namespace pie::cli
