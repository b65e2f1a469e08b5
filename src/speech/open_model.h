// Reads a model's vocabulary and chat template from its files.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "speech/model.h"

namespace pie {

// `path` is a GGUF file or a Hugging Face folder. Takes tens of milliseconds, most of them for the
// tokenizer. Fails if the files have no tokenizer, or one of an unknown kind.
Result<Model> OpenModel(const std::filesystem::path& path, std::string name);

}  // namespace pie
