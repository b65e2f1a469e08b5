// A line about a model file or folder, for people: "llama, 135 M parameters, Q4_1, 8192 tokens".
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace pie {

// Reads headers only: milliseconds, whatever the model's size.
Result<std::string> Summarize(const std::filesystem::path& path);

}  // namespace pie
