// Models on this machine: the ones that `pie model download` brought, and what a config may name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pie::cli {

inline constexpr std::string_view kDefaultModel = "smollm2-135m-instruct";

std::filesystem::path ModelsDir();  // in the cache

struct LocalModel {
  std::string name;  // of its folder below ModelsDir(); owner/name where it came from a hub
  uint64_t bytes = 0;
};
std::vector<LocalModel> LocalModels();  // by name

// What to open for `model`: a .gguf file or a Hugging Face folder as they are (~ is the home
// folder), a folder with one .gguf in it, or a downloaded model by its name.
Result<std::string> FindModel(std::string_view model);

// Fetches a model by its name, or owner/name from the Hugging Face hub. Shows progress.
Status DownloadModel(std::string_view name);
Status RemoveModel(std::string_view name);

}  // namespace pie::cli
