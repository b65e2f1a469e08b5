// Reads and writes the answers of a scripted model ([[answer]], see speech/script.h).
#pragma once

#include <toml++/toml.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "speech/script.h"

namespace pie::cli {

// The tables `answer` of `table`, which is a part of the file at `path`.
Result<std::vector<ScriptedAnswer>> ReadAnswers(const toml::table& table, const std::string& path);

// A file that has nothing but answers.
Result<std::shared_ptr<Script>> ReadScript(const std::string& path);

toml::array AnswersToToml(const std::vector<ScriptedAnswer>& answers);

}  // namespace pie::cli
