// ChatSource: the parts of a model's files that concern chat, unchanged. A ChatTemplate is made
// from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "speech/tokenizer.h"

namespace pie {

struct ChatSource {
  std::string text;  // the Jinja template; empty if the model has none
  // Variables that templates know: bos_token, eos_token, unk_token, pad_token → the token's text.
  std::map<std::string, std::string> special_tokens;
  std::vector<uint32_t> stop_ids;  // the tokens that end a turn, if the files name them
};

// Reads tokenizer.chat_template and the ids beside it. `tokenizer` gives the texts of the ids.
ChatSource ReadChatSource(const Gguf& gguf, const Tokenizer& tokenizer);

// Reads tokenizer_config.json, chat_template.jinja and generation_config.json, each of which may be
// absent. Fails if one of them cannot be read.
Result<ChatSource> ReadChatSource(const std::filesystem::path& folder);

}  // namespace pie
