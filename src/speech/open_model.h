// A model's vocabulary and manner of speaking out of its files.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "speech/model.h"

namespace pie {

// `path` is a GGUF file or a Hugging Face folder. Takes tens of milliseconds, most of them for the
// tokenizer. Fails on files without a tokenizer or with one that is not known.
Result<Model> OpenModel(const std::filesystem::path& path, std::string name);

}  // namespace pie
