// A one-line summary of a model file or folder: "llama, 135 M parameters, Q4_1, 8192 tokens".
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace pie {

// Reads headers only, so it takes milliseconds for any size.
Result<std::string> Summarize(const std::filesystem::path& path);

}  // namespace pie
